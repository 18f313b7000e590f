"""The face that a lab's author imports: cases, ``expect_…``, costs, and the pytest plugin."""
