"""The parts of the service that answer: each module the routes of one of them."""
