# over the solution
"""Blocks are made known while the batch is put together: tokens are written before any is read."""


class Scheduler:
    def step(self, now):
        works = []
        self._scheduled = []
        budget, room = self.token_budget, True

        def schedule(one, count):
            size = self.cache.block_size
            start, end = one.computed, one.computed + count
            self._scheduled.append((one, count))
            works.append(
                Work(
                    one.request.id,
                    start,
                    tuple(one.tokens[start:end]),
                    tuple(one.blocks),
                    end == len(one.tokens),
                )
            )
            for number, block in enumerate(one.blocks):
                if start < (number + 1) * size <= end:
                    self.cache.fill(block, tuple(one.tokens[: (number + 1) * size]))
            one.computed = end
            return count

        for one in list(self.running):
            if one not in self.running or one.left != 1:
                continue
            while self._lacking(one, len(one.tokens)) > self.cache.available:
                self._preempt()
                room = False
                if one not in self.running:
                    break
            else:
                one.blocks += self.cache.allocate(self._lacking(one, len(one.tokens)))
                budget -= schedule(one, 1)
        busy = [one for one, _ in self._scheduled]
        for one in self.running:
            if one not in busy and budget > 0:
                budget -= schedule(one, min(one.left, budget))
        while room and self.waiting and budget > 0 and len(self.running) < self.max_running:
            if self.waiting[0].request.arrival > now:
                break
            one = self.waiting[0]
            if not self._admit(one):
                break
            budget -= schedule(one, min(one.left, budget))
        return Batch(tuple(works))

    def update(self, sampled, stopped=()):
        finished = []
        for one, _ in self._scheduled:
            number = one.request.id
            one.tokens += [sampled[number]] if number in sampled else []
            if one.made >= one.request.max_new_tokens or number in stopped:
                finished.append(number)
                self.cache.release(one.blocks)
                self.running.remove(one)
        return finished
