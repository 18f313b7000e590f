"""Files for other systems: grade books, feedback archives, test results, similarity bundles.

Everything here starts from a finished class (``autograder.report.class_file``) and writes files in
a form that somebody else defined; each module says where that form was read.
"""
