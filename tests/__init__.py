"""The tests of Rollcall, in the same folders as what they test."""
