# over the solution
"""One table of requests, sorted anew in every step; waiting and running are views of it."""


class Scheduler:
    def __init__(self, cache, token_budget, max_running):
        if max_running > token_budget:
            raise ValueError("every running request needs a token of the budget")
        self.cache, self.token_budget, self.max_running = cache, token_budget, max_running
        self.table = []  # dicts, in the order of adding

    def _sorted(self, runs):
        chosen = [row for row in self.table if (row["blocks"] is not None) == runs]
        return sorted(chosen, key=lambda row: row["request"].arrival)  # a stable sort

    @property
    def waiting(self):
        return self._sorted(False)

    @property
    def running(self):
        return self._sorted(True)

    def add(self, request):
        capacity = self.cache.num_blocks * self.cache.block_size
        if len(request.prompt) + request.max_new_tokens > capacity + 1:
            raise ValueError("too long")
        if len(request.prompt) == 0 or request.max_new_tokens <= 0:
            raise ValueError("nothing to do")
        row = {"request": request, "text": list(request.prompt), "blocks": None, "done": 0}
        self.table.append(row | {"count": 0})

    def _blocks(self, tokens):
        return (tokens + self.cache.block_size - 1) // self.cache.block_size

    def step(self, now):
        for row in self.table:
            row["count"] = 0
        budget, nobody = self.token_budget, False
        for row in self.running:
            if row["blocks"] is None or len(row["text"]) - row["done"] != 1:
                continue
            if self._blocks(len(row["text"])) > len(row["blocks"]):
                while not self.cache.available and row["blocks"] is not None:
                    victim = self.running[-1]
                    self.cache.release(victim["blocks"])
                    victim["blocks"], nobody = None, True
                if row["blocks"] is None:
                    continue
                row["blocks"].extend(self.cache.allocate(1))
            row["count"] = 1
            budget -= 1
        for row in self.running:
            if not row["count"]:
                row["count"] = min(budget, len(row["text"]) - row["done"])
                budget -= row["count"]
        for row in [] if nobody else self.waiting:
            if not budget or len(self.running) >= self.max_running:
                break
            if row["request"].arrival > now:
                break
            found = self.cache.match(tuple(row["text"]))
            try:
                rest = self.cache.allocate(self._blocks(len(row["text"])) - len(found))
            except OutOfBlocks:
                self.cache.release(found)
                break
            row["blocks"], row["done"] = found + rest, len(found) * self.cache.block_size
            row["count"] = min(budget, len(row["text"]) - row["done"])
            budget -= row["count"]
        works = []
        for row in reversed(self.running):  # any order will do
            if row["count"]:
                end = row["done"] + row["count"]
                tokens, size = tuple(row["text"][row["done"] : end]), self.cache.block_size
                table = tuple(row["blocks"][: -(-end // size)])
                newest = end == len(row["text"])
                works.append(Work(row["request"].id, row["done"], tokens, table, newest))
        return Batch(tuple(works))

    def update(self, sampled, stopped=()):
        size, over = self.cache.block_size, []
        for row in self.running:
            request, before = row["request"], row["done"]
            if not row["count"]:
                continue
            row["done"] += row["count"]
            row["count"] = 0
            for end in range(before // size * size + size, row["done"] + 1, size):
                self.cache.fill(row["blocks"][end // size - 1], tuple(row["text"][:end]))
            if request.id in sampled:
                row["text"] += [sampled[request.id]]
            full = len(row["text"]) >= len(request.prompt) + request.max_new_tokens
            if full or request.id in stopped:
                over.append(request.id)
                self.cache.release(row["blocks"])
                self.table.remove(row)
        return over
