"""The rules of the problems in plain Python, one episode at a time, sharing no code with the package."""


def play_bcp(flags, actions):
    """Return observations, rewards and the step after which the game ended."""
    n = len(flags)
    seen, earned = [], []
    for i in range(1, n + 1):
        seen.append([i / n, float(flags[i - 1])])
        if actions[i - 1] == 1:
            is_best = flags[i - 1] and not any(flags[i:])
            earned.append(1.0 if is_best else 0.0)
            break
        earned.append(0.0)
    return seen, earned


def play_okd(sizes, values, budget, target, actions):
    n = len(sizes)
    used = collected = 0.0
    seen, earned = [], []
    for i in range(1, n + 1):
        seen.append([i / n, sizes[i - 1], values[i - 1], used / budget, collected / target])
        if actions[i - 1] == 1 and used + sizes[i - 1] <= budget:
            used += sizes[i - 1]
            collected += values[i - 1]
        if collected >= target:
            earned.append(1.0)
            break
        earned.append(0.0)
    return seen, earned


def play_adw(bids, target, actions, budgets=None):
    num_slots, num_advertisers = len(bids), len(bids[0])
    budgets = [1.0] * num_advertisers if budgets is None else list(budgets)
    revenue = 0.0
    seen, earned = [], []
    for j in range(1, num_slots + 1):
        seen.append([j / num_slots, *bids[j - 1], *budgets, revenue / target])
        winner = actions[j - 1] - 1
        if winner >= 0 and budgets[winner] >= bids[j - 1][winner]:
            budgets[winner] -= bids[j - 1][winner]
            revenue += bids[j - 1][winner]
        if revenue >= target:
            earned.append(1.0)
            break
        earned.append(0.0)
    return seen, earned


def play_choice(values, picks, payoff, actions):
    """Rewards not scaled: what is paid for the chosen by their final rank, or their values."""
    n, left = len(values), picks
    payoffs = [1.0] if payoff == "best" else payoff
    seen, earned = [], []
    for i in range(1, n + 1):
        present = values[i - 1]
        rank = 1 + len([one for one in values[: i - 1] if one >= present])
        seen.append([i / n, present if payoff == "value" else 1 / rank, left / picks])
        paid = 0.0
        if actions[i - 1] == 1:
            left -= 1
            final = sorted(values, reverse=True).index(present)
            paid = present if payoff == "value" else payoffs[final] if final < len(payoffs) else 0.0
        earned.append(paid)
        if left == 0:
            break
    return seen, earned


def play_okd_value(sizes, values, budget, actions):
    n, used = len(sizes), 0.0
    seen, earned = [], []
    for i in range(1, n + 1):
        seen.append([i / n, sizes[i - 1], values[i - 1], used / budget])
        fits = actions[i - 1] == 1 and used + sizes[i - 1] <= budget
        used += sizes[i - 1] if fits else 0.0
        earned.append(values[i - 1] if fits else 0.0)
    return seen, earned


def play_adw_value(bids, budgets, actions):
    left = list(budgets)
    seen, earned = [], []
    for j in range(1, len(bids) + 1):
        seen.append([j / len(bids), *bids[j - 1], *left])
        winner = actions[j - 1] - 1
        pays = winner >= 0 and left[winner] >= bids[j - 1][winner]
        earned.append(bids[j - 1][winner] if pays else 0.0)
        if pays:
            left[winner] -= bids[j - 1][winner]
    return seen, earned
