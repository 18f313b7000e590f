"""Running a student's code in another process that holds no answer and can do no harm."""
