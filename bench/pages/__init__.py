"""Reports of rehearsals and drills: a neutral document, and the HTML page made of it."""
