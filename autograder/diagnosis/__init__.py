"""From a failing output to the mistake behind it: misconceptions, fingerprints, stages."""
