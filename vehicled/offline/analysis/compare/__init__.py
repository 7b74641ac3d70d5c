"""``vehicled log compare``: regressions and improvements between builds, profiles or machines, with
confidence intervals."""
