# over the solution
"""Every request is a coroutine that is sent words and gives pieces; a batch is built by lists."""


def speaker(request):
    """Takes ``(word, whether it is the last)``, gives ``(piece, whether it stopped)``."""
    shown, text, piece, stopped = 0, "", "", False
    longest = max((len(stop) for stop in request.stop), default=0)
    while True:
        word, last = yield piece, stopped
        text += word
        for end in range(len(text) + 1):
            if any(text[end:].startswith(stop) for stop in request.stop):
                stopped, text = True, text[:end]
                break
        held = 0
        if not stopped and not last:
            for length in range(1, min(longest, len(text) + 1)):
                if any(stop.startswith(text[len(text) - length :]) for stop in request.stop):
                    held = length
        piece, shown = text[shown : len(text) - held], max(shown, len(text) - held)


class Engine:
    def __init__(self, model, scheduler, words):
        self.model, self.scheduler, self.words = model, scheduler, list(words)

    def stream(self, requests):
        voices, dice, heat, left = {}, {}, {}, {}
        for request in requests:
            voices[request.id] = speaker(request)
            next(voices[request.id])
            dice[request.id] = torch.Generator()
            dice[request.id].manual_seed(request.seed)
            heat[request.id], left[request.id] = request.temperature, request.max_new_tokens
            self.scheduler.add(request)
        now = 0
        while len(self.scheduler.waiting) + len(self.scheduler.running):
            works = self.scheduler.step(now).works
            now += 1
            if len(works) == 0:
                continue
            ids, places, ends, tables, lengths = [], [], [0], [], []
            for work in works:
                for at, token in enumerate(work.tokens):
                    ids.append(token)
                    places.append(work.start + at)
                ends.append(len(ids))
                tables.append(list(work.blocks))
                lengths.append(work.start + len(work.tokens))
            most = max(map(len, tables))
            for table in tables:
                table.extend([-1] * (most - len(table)))
            given = (ids, places, ends, tables, lengths)
            scores = self.model(*(torch.tensor(one, dtype=torch.int64) for one in given))
            sampled, pieces, stopped = {}, {}, set()
            for number, work in enumerate(works):
                if not work.sample:
                    continue
                i = work.request
                sampled[i] = sample(scores[ends[number + 1] - 1], heat[i], dice[i])
                left[i] -= 1
                pieces[i], over = voices[i].send((self.words[sampled[i]], left[i] == 0))
                if over:
                    stopped.add(i)
            self.scheduler.update(sampled, stopped)
            yield from ((i, piece) for i, piece in pieces.items() if piece)

    def generate(self, requests):
        requests = tuple(requests)
        pieces = {request.id: [] for request in requests}
        for i, piece in self.stream(requests):
            pieces[i].append(piece)
        return {i: "".join(parts) for i, parts in pieces.items()}
