"""What is known of how training fails: messages of frameworks, and what to do about them."""
