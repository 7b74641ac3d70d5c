"""Our vehicle model beside other people's: the same commands from the same start, and how far the two drift apart."""
