"""Learning from drives: data sets, training by imitation, and the files of policies."""
