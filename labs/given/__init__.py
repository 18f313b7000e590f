"""Code that the labs give for free: config, RMSNorm, model skeleton, checkpoint loader."""
