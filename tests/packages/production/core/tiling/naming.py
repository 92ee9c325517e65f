class Names:
    """Names with a counter."""

    def __init__(self, prefix=""):
        self.prefix = prefix
        self.used = {}

    def __call__(self, name, *parts):
        full = "_".join([self.prefix, name, *(str(part) for part in parts)]).strip("_")
        self.used[full] = self.used.get(full, 0) + 1
        return full if self.used[full] == 1 else f"{full}_{self.used[full] - 1}"

    def __len__(self):
        return sum(self.used.values())
