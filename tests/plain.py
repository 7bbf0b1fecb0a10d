"""The rules of the three problems in plain Python, one episode at a time, sharing no code with the package."""


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


def play_adw(bids, target, actions):
    num_slots, num_advertisers = len(bids), len(bids[0])
    budgets = [1.0] * num_advertisers
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
