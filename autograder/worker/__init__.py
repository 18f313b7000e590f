"""The side of student code: the zygote, a worker's loop, its jail. It knows no answer."""
