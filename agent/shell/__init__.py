"""What a shell command line would do, read from its text by a grammar; nothing is run or looked up.

`grammar` finds the simple commands in it, `word` what their words become, `within` the commands
that those run in turn, `programs` and `git` know programs, `place` knows paths, and `effect` puts
it together. What is not understood is said to be so, never guessed.
"""
