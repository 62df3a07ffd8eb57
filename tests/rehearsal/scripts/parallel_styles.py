"""Further ways to spread a model, each by its name: `python parallel_styles.py NAME`. What is not as on GPUs fails."""

import os
import sys
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

RANK, LOCAL_RANK, WORLD = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
HERE = torch.device("cuda", LOCAL_RANK)


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def train(model, steps=2):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        x, y = torch.randn(8, 16, device=HERE), torch.randint(4, (8,), device="cuda")
        loss = F.cross_entropy(model(x).float(), y)
        assert loss.device == HERE
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def places(tensors):
    return {str(each.device) for each in tensors if each.dim()}


def checkpoint():
    """Distributed checkpoints, also in the background, of a model that fully_shard has spread."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("cpu:gloo,cuda:nccl")
    assert dist.get_backend() == "cpu:gloo,cuda:nccl"
    model = fully_shard(make_model())
    optimizer = train(model)
    names = ("model", "optimizer")
    saved = dict(zip(names, get_state_dict(model, optimizer), strict=True))
    dcp.async_save(saved, checkpoint_id="outputs/saved").result()
    dist.barrier()
    other = fully_shard(nn.Sequential(*(type(each)(*sizes(each)) for each in make_model())))
    found = dict(zip(names, get_state_dict(other, train(other)), strict=True))
    dcp.load(found, checkpoint_id="outputs/saved")
    again = torch.optim.AdamW(other.parameters(), lr=1e-2)
    set_state_dict(other, again, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one.full_tensor(), two.full_tensor()) and two.device == HERE
    assert places(value for state in again.state.values() for value in state.values()) == {str(HERE)}


def sizes(layer):
    return (layer.in_features, layer.out_features) if isinstance(layer, nn.Linear) else ()


def background_save():
    """A group with nccl alone has nothing for the CPU's tensors."""
    import torch.distributed.checkpoint as dcp

    dist.init_process_group("nccl")
    try:
        dcp.async_save({"x": torch.ones(1, device=HERE)}, checkpoint_id="outputs/refused")
    except AssertionError as error:
        assert "A CPU backend must be enabled for async save" in str(error)
    else:
        raise AssertionError("saved")


def end_after_init():
    """A rank that ends at once leaves no other one in the middle of its connections."""
    import time

    from torch.distributed import distributed_c10d

    left = Path("outputs/left")
    make = distributed_c10d._new_process_group_helper

    def make_slowly(*values, **options):
        made = make(*values, **options)
        time.sleep(RANK)
        assert not left.exists(), "rank 0 went on"
        return made

    distributed_c10d._new_process_group_helper = make_slowly
    dist.init_process_group("nccl")
    if RANK == 0:
        left.touch()


def broadcast_state():
    """One rank has the weights; the process group is bound to a device, which sets none."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("nccl", device_id=HERE)
    assert not torch.cuda.is_initialized()
    model = fully_shard(make_model())
    assert torch.cuda.current_device() == LOCAL_RANK
    whole = make_model().state_dict() if RANK == 0 else {}
    set_model_state_dict(model, whole, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    train(model)
    saved = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert places(saved.values()) == ({"cpu"} if RANK == 0 else set())


def offload():
    """Parameters and the optimizer's states on the CPU, the work on the GPU."""
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    dist.init_process_group()
    model = fully_shard(make_model(), offload_policy=CPUOffloadPolicy())
    optimizer = train(model)
    assert places(model.parameters()) == {"cpu"}
    assert places(value for state in optimizer.state.values() for value in state.values()) == {"cpu"}


def first_fsdp():
    """FullyShardedDataParallel with a policy and full state dicts, placed in each way that it knows."""
    from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, MixedPrecision, StateDictType

    dist.init_process_group("nccl")
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    words = {"auto_wrap_policy": policy_by_size(), "use_orig_params": True, "mixed_precision": precision}
    wrap = partial(FullyShardedDataParallel, **words)
    for model in (wrap(make_model().to(HERE)), wrap(make_model(), device_id=LOCAL_RANK)):
        torch.cuda.set_device(HERE)
        train(model)
        assert places(model.parameters()) <= {str(HERE)}
        config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
            saved = model.state_dict()
        assert len(saved) == (0 if RANK else 6) and places(saved.values()) == (set() if RANK else {"cpu"})
    for words in ({"device_id": (LOCAL_RANK + 1) % WORLD}, {}):
        try:
            wrap(make_model().to(HERE), **words) if words else wrap(make_model())(torch.ones(1, 16))
        except (ValueError, RuntimeError) as error:
            print(str(error)[:36])


def policy_by_size():
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

    return partial(size_based_auto_wrap_policy, min_num_params=2000)


def hybrid_fsdp():
    """Sharded by the GPUs of a node, without a mesh."""
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    dist.init_process_group("nccl")
    torch.cuda.set_device(HERE)
    words = {"device_id": HERE, "auto_wrap_policy": policy_by_size()}
    model = FullyShardedDataParallel(make_model(), sharding_strategy=ShardingStrategy.HYBRID_SHARD, **words)
    train(model)
    assert dist.get_world_size(model.process_group) == torch.cuda.device_count()
    assert dist.get_backend(model.process_group) == "nccl"


def distributed_tensors():
    """Tensors of the CPU go to the GPU of the mesh."""
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor, randn, zeros

    mesh = init_device_mesh("cuda", (WORLD,))
    assert repr(mesh).count("cuda") == 1 and "cpu" not in repr(mesh)
    whole = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
    parts = [
        whole,
        zeros(8, device_mesh=mesh, placements=[Shard(0)]),
        randn(8, device_mesh=mesh, placements=[Shard(0)]),
    ]
    parts.append(DTensor.from_local(torch.ones(2), mesh, [Shard(0)]))
    for each in (*parts, *(part.full_tensor() for part in parts), whole.to_local(), whole + 1, (whole + 1).to_local()):
        assert each.device == HERE and each.is_cuda
    assert whole.full_tensor().tolist() == list(range(8))
    model = distribute_module(make_model(), mesh)
    result = model(DTensor.from_local(torch.ones(2, 16), mesh, [Replicate()]))
    assert places(model.parameters()) == {str(result.device)} == {str(HERE)}


def replicated():
    """Data parallel on a mesh: the wrapper, and the function that works as fully_shard does."""
    from torch.distributed._composable.replicate_with_fsdp import replicate

    mesh = init_device_mesh("cuda", (WORLD,))
    model = nn.parallel.DistributedDataParallel(make_model().cuda(), device_mesh=mesh)
    train(model)
    other = make_model()
    replicate(other)
    train(other)
    assert places(model.parameters()) == places(other.parameters()) == {str(HERE)}


def attention():
    """Attention over distributed tensors gives what it gives over whole ones, with their gradients."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cuda", (WORLD,))
    torch.manual_seed(0)
    values = [torch.randn(2, 4, 6, 8) for _ in range(3)]
    wholes = [each.to(HERE).requires_grad_() for each in values]
    expected = F.scaled_dot_product_attention(*wholes, is_causal=True)
    expected.square().sum().backward()
    for placement in (Shard(0), Shard(1), Shard(2), Replicate()):
        parts = [distribute_tensor(each, mesh, [placement]).requires_grad_() for each in values]
        found = F.scaled_dot_product_attention(*parts, is_causal=True)
        assert found.placements == (placement if placement != Shard(2) else Replicate(),) and found.device == HERE
        found.full_tensor().square().sum().backward()
        torch.testing.assert_close(found.full_tensor(), expected)
        for part, whole in zip(parts, wholes, strict=True):
            torch.testing.assert_close(part.grad.full_tensor(), whole.grad)


def pending_averages():
    """An average that is asked for in the background is there when its work says so, in whichever way."""
    dist.init_process_group("nccl", device_id=HERE)
    mean, average = sum(range(WORLD)) / WORLD, {"op": dist.ReduceOp.AVG, "async_op": True}
    finish = [lambda work: work.wait(), lambda work: work.get_future().wait(), wait_by_asking, wait_for_what_follows]
    for wait in finish:
        value, part = torch.full((4,), float(RANK), device=HERE), torch.empty(2, device=HERE)
        wait(dist.all_reduce(value, **average))
        wait(dist.reduce_scatter_tensor(part, torch.full((2 * WORLD,), float(RANK), device=HERE), **average))
        assert value.tolist() == [mean] * 4 and part.tolist() == [mean] * 2, (wait, value, part)
    with dist._coalescing_manager():
        dist.reduce_scatter_tensor(part.zero_(), torch.full((2 * WORLD,), float(RANK), device=HERE), average["op"])
    assert part.tolist() == [mean] * 2, part


def wait_by_asking(work):
    while not work.is_completed():
        pass


def wait_for_what_follows(work):
    assert work.get_future().then(lambda future: future.value()[0].sum()).wait() > 0


def cpu_tensors():
    """NCCL takes no tensor of the CPU, in whichever call; those of GPUs arrive."""
    dist.init_process_group("nccl", device_id=HERE)
    other, whole, sent, received = 1 - RANK, torch.ones(2), torch.ones(2, device=HERE), torch.zeros(2, device=HERE)
    for call in (
        lambda: dist.send(whole, other),
        lambda: dist.irecv(whole, other),
        lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, whole, other)]),
        lambda: dist.all_to_all([whole, whole], [whole, whole]),
        lambda: dist.all_reduce_coalesced([whole]),
    ):
        try:
            call()
        except RuntimeError as error:
            assert "No backend type associated with device type cpu" in str(error)
        else:
            raise AssertionError("taken")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, received, other)]):
        work.wait()
    assert received.tolist() == [1, 1]


def pipeline():
    """A stage on each GPU."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    dist.init_process_group("nccl", device_id=HERE)
    torch.manual_seed(0)
    layer = nn.Linear(16, 16).to(HERE)
    schedule = Schedule1F1B(PipelineStage(layer, RANK, WORLD, HERE), n_microbatches=4, loss_fn=F.mse_loss)
    losses = []
    if RANK == WORLD - 1:
        result = schedule.step(target=torch.ones(8, 16, device=HERE), losses=losses)
        assert result.device == HERE and losses[0].device == HERE
    else:
        schedule.step(*([torch.ones(8, 16, device=HERE)] if RANK == 0 else []))
    assert layer.weight.grad.device == HERE


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("as on GPUs")
    dist.destroy_process_group()
