"""Two optimizers over stored experience: an actor and a critic that share a trunk, in a loader."""

import torch
import torch.nn as nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(26)
torch.set_default_dtype(torch.float64)
trunk = nn.Linear(3, 8)
actor, critic = nn.Linear(8, 2), nn.Linear(8, 1)
actor_optimizer = torch.optim.Adam(list(trunk.parameters()) + list(actor.parameters()), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.02)
experience = TensorDataset(torch.randn(32, 3), torch.randint(2, (32,)), torch.randn(32))
for epoch in range(2):
    for state, action, reward in DataLoader(experience, batch_size=8, shuffle=True):
        hidden = torch.tanh(trunk(state))
        value = critic(hidden.detach()).squeeze(1)
        critic_loss = nn.functional.mse_loss(value, reward)
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        advantage = (reward - value).detach()
        distribution = Categorical(logits=actor(hidden))
        actor_loss = -(distribution.log_prob(action) * advantage).mean() - 0.01 * distribution.entropy().mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        print("losses", critic_loss.item(), actor_loss.item())
