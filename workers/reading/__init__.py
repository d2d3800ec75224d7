"""What people attach and pages hold, made readable."""
