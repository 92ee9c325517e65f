"""The language server: findings, hovers and fixes while a kernel is typed. It runs nothing of the user's."""
