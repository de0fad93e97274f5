"""Drafts for somebody's repository: a suite, settings and a workflow, from what the sources say."""
