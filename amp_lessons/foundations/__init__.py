"""What everything else stands on. Nothing here knows the course, and nothing imports torch."""
