"""What runs beside student code: the zygote, a worker's loop, its jail. It knows no answer."""
