"""What other systems read: grade books, feedback archives, test results, similarity bundles.

Everything here starts from a finished class (``autograder.report.record``) and writes files in a
form that somebody else defined; each module says in its docstring where that form was read.
"""
