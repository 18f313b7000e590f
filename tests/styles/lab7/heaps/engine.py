# over the solution
"""Heaps: one of free blocks with stale entries, one of the requests in line."""

import heapq


class PrefixCache:
    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size, self.clock = num_blocks, block_size, 0
        self.free = [(False, 0, block) for block in range(num_blocks)]  # known, when, block
        self.when = dict.fromkeys(range(num_blocks), 0)  # of those without an owner
        self.count, self.name, self.place = {}, {}, {}

    @property
    def available(self):
        return len(self.when)

    def match(self, tokens):
        def known():
            for size in range(self.block_size, len(tokens), self.block_size):
                block = self.place.get(repr(list(tokens[:size])))
                if block is None:
                    return
                yield block

        blocks = list(known())
        for block in blocks:
            self.count[block] = self.count.get(block, 0) + 1
            self.when.pop(block, None)
        return blocks

    def allocate(self, count):
        if len(self.when) - count < 0:
            raise OutOfBlocks("too few blocks")
        blocks = []
        while len(blocks) < count:
            _, when, block = heapq.heappop(self.free)
            if self.when.get(block) != when:
                continue  # found again since
            del self.when[block]
            self.count[block] = 1
            self.place.pop(self.name.pop(block, None), None)
            blocks.append(block)
        return blocks

    def fill(self, block, tokens):
        name = repr(list(tokens))
        if name not in self.place:
            self.place[name], self.name[block] = block, name

    def release(self, blocks):
        for block in blocks:
            if not self.count.get(block):
                raise ValueError(f"{block} has no owner")
        for block in reversed(blocks):
            self.count[block] -= 1
            if self.count[block] == 0:
                self.clock += 1
                self.when[block] = self.clock
                heapq.heappush(self.free, (block in self.name, self.clock, block))


class Scheduler:
    def __init__(self, cache, token_budget, max_running):
        if token_budget < max_running:
            raise ValueError("token_budget < max_running")
        self.cache, self.token_budget, self.max_running = cache, token_budget, max_running
        self.waiting, self.running, self._scheduled = [], [], []
        self._number = 0

    def add(self, request):
        tokens = len(request.prompt) + request.max_new_tokens - 1
        if not len(request.prompt) > 0 < request.max_new_tokens:
            raise ValueError("an empty request")
        if -(-tokens // self.cache.block_size) > self.cache.num_blocks:
            raise ValueError("it can never fit")
        self._number += 1
        one = Progress(request, (request.arrival, self._number))
        heapq.heappush(self.waiting, (one.order, one))

    def _preempt(self):
        one = self.running.pop()
        self.cache.release(one.blocks)
        one.blocks, one.computed = [], 0
        heapq.heappush(self.waiting, (one.order, one))

    def step(self, now):
        plan, budget, before = {}, self.token_budget, len(self.waiting)
        for one in [one for one in self.running if one.left == 1]:
            short = self._lacking(one, len(one.tokens))
            while short and not self.cache.available and one in self.running:
                self._preempt()
            if one not in self.running:
                break  # it was the youngest
            if short:
                one.blocks = one.blocks + self.cache.allocate(short)
            plan[one] = 1
            budget -= 1
        for one in self.running:
            if one not in plan:
                plan[one] = min(one.left, budget)
                budget -= plan[one]
        if len(self.waiting) == before:
            budget = self._let_in(now, plan, budget)
        self._scheduled = [(one, count) for one, count in plan.items() if count]
        return Batch(tuple(self._work(*pair) for pair in self._scheduled))

    def _work(self, one, count):
        text = one.tokens[: one.computed + count]
        whole = len(text) == len(one.tokens)
        return Work(
            one.request.id, one.computed, tuple(text[one.computed :]), tuple(one.blocks), whole
        )

    def _let_in(self, now, plan, budget):
        while self.waiting and budget and len(self.running) < self.max_running:
            one = self.waiting[0][1]
            if one.request.arrival > now:
                break
            one.blocks = self.cache.match(one.tokens)
            lacking = self._lacking(one, len(one.tokens))
            if lacking > self.cache.available:
                self.cache.release(one.blocks)
                one.blocks = []
                break
            one.computed = len(one.blocks) * self.cache.block_size
            one.blocks = one.blocks + self.cache.allocate(lacking)
            heapq.heappop(self.waiting)
            self.running.append(one)
            self.running.sort(key=lambda other: other.order)
            plan[one] = min(one.left, budget)
            budget -= plan[one]
        return budget


class _Text:
    def __init__(self, request):
        self.request, self.shown, self.stopped = request, 0, False
        self.generator = torch.Generator()
        self.generator.manual_seed(request.seed)
        self.words = []

    def add(self, word):
        self.words.append(word)

    @property
    def stopped(self):
        return any(stop in "".join(self.words) for stop in self.request.stop)

    @stopped.setter
    def stopped(self, value):
        assert value is False

    def piece(self, finished):
        text = "".join(self.words)
        places = [text.find(stop) for stop in self.request.stop]
        places = [place for place in places if place >= 0]
        end = min(places) if places else len(text)
        if not finished and not places:
            longest = 0
            for stop in self.request.stop:
                for size in range(1, len(stop)):
                    if text.endswith(stop[:size]):
                        longest = max(longest, size)
            end -= longest
        piece, self.shown = text[self.shown : end], max(self.shown, end)
        return piece
