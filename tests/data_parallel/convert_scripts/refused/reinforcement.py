"""REINFORCE: no loader."""

import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(28)
policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(3):
    log_probs, rewards = [], []
    state = torch.randn(4)
    for t in range(10):
        m = Categorical(logits=policy(state))
        action = m.sample()
        log_probs.append(m.log_prob(action))
        state = torch.randn(4)
        rewards.append(float(action))
    returns = torch.tensor(rewards)
    policy_loss = []
    for log_prob, R in zip(log_probs, returns):
        policy_loss.append(-log_prob * R)
    optimizer.zero_grad()
    policy_loss = torch.stack(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    print(policy_loss.item())
