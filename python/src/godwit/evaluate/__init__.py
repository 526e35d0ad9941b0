"""Owns the evaluation of a path, its hosts and its storage: plan, runs, results, statistics, report."""
