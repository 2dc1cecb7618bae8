"""The Chinese text front end; pure functions, rules as data."""
