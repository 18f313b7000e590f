"""What a lab's author writes checks with."""
