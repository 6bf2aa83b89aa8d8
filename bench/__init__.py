"""Speed, measured side by side in one run: ``make bench``. Read ratios, not absolute times."""
