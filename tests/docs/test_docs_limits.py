"""What pages say is handled, refused, reported or unknown: each row has a test or a script that shows it."""

from __future__ import annotations

import os
import re

import pytest
from documents import ROOT, find_page

TESTS = ROOT / "tests"
_PARALLEL, _CONVERTED, _REHEARSED = "data_parallel", "data_parallel/convert_scripts", "rehearsal"
_CONVENTIONS = "frameworks/conventions"
_SECTIONS = {"rehearsal.md": "What scripts see", "frameworks.md": "What frameworks read"}
"""The section whose tables are meant, where it is not the usual one."""

SHOWN = {
    "convert.md": {
        "`DataLoader(data, **options)`": (
            "loaders/other_loaders.py", "loaders/phases_dict.py", "loaders/next_loops.py", "loaders/two_files/train.py",
        ),
        "samplers and batch samplers": ("loaders/samplers.py",),
        "several models, optimizers and backwards": (
            "losses/accumulation.py", "losses/bfgs.py", "losses/two_backwards.py", "models/actor_critic.py",
        ),
        "models whose attributes": ("models/own_methods.py", "models/self_attributes.py", "models/data_parallel.py"),
        "losses that are means": ("losses/sums.py", "losses/sum_divided.py", "losses/own_classes.py"),
        "losses, counts, sizes": ("figures/meters.py", "figures/simple_accuracy.py", "figures/step_function.py"),
        "`if loss < best:`": ("figures/conditions.py", "figures/early_stopping.py"),
        "a limit of time": ("figures/own_answers.py",),
        "`torch.save`": ("figures/files.py", "figures/tensorboard.py"),
        '`"cuda:0"`': ("unit/wings/convert/test_surroundings.py",),
        "batches that the script cuts out": ("refused/own_crops.py", "refused/lists.py", "refused/reinforcement.py"),
        "an `IterableDataset`": ("refused/stream.py",),
        "weights changed by hand": ("refused/by_hand.py", "refused/hand_add.py", "refused/autograd_grad.py"),
        "one loss that is a mean": ("refused/mean_and_sum.py",),
        "a condition on what one rank": ("refused/parted.py",),
        "a script that distributes itself": ("data_parallel/test_convert.py::test_what_cannot_be_converted",),
        "`BatchNorm`": ("models/batchnorm_dropout.py",),
        "dropout and noise": ("models/batchnorm_dropout.py", "models/vae.py", "losses/gan.py"),
        "a loss that is no mean": ("losses/class_weights.py", "losses/contrastive.py", "losses/rooted.py"),
        "a loss of which it is not seen": ("unit/wings/convert/test_kinds_of_losses.py",),
        "samples that are padded": ("losses/padded.py",),
        "a figure of which": ("figures/unknown_figures.py", "figures/after_loop.py"),
        "`CUDA_VISIBLE_DEVICES`": ("models/amp.py",),
    },
    "data-parallel.md": {
        "shuffling, `drop_last`": ("test_reading.py::test_slices_of_whatever_a_batch_is", "scripts/streaming.py"),
        "several backwards": ("scripts/gan.py", "scripts/mixture.py"),
        "models called through": ("scripts/vae.py", "scripts/transformer.py"),
        "losses that are sums": (
            "test_reading.py::test_what_a_loss_makes_of_its_batch", "styles/losses/mean_and_sum.py",
        ),
        "`ignore_index`, class weights": ("scripts/transformer.py", "styles/losses/weighted_rows.py"),
        "losses that compare samples": (
            "styles/losses/clip.py", "styles/losses/batch_hard_triplets.py", "styles/losses/dice.py",
        ),
        "mixup, CutMix": ("styles/noise/mixup.py", "styles/noise/cutmix.py", "styles/noise/multinomial.py"),
        "noise in which": ("styles/noise/other_dimensions.py", "styles/noise/inside_models.py"),
        "what the script prints": ("test_figures_fuzz.py::test_programs_made_at_random",),
        "AMP, `GradScaler`": ("test_equal.py::test_mixed_precision_differs_by_its_own_precision",),
        "`torch.save`, `torch.load`": ("test_behaviour.py::test_what_is_saved_can_be_moved_copied_and_loaded_at_once",),
        "`cuda`": ("test_equal.py::test_on_virtual_gpus_it_is_the_same_training_too",),
        "TensorBoard, tqdm": (
            "test_rank_outputs.py::test_of_progress_bars_and_runs_of_weights_and_biases_rank_0_alone_has_any",
            "test_rank_outputs.py::test_of_tensorboards_events_those_of_rank_0_lie_where_the_script_wants_them",
        ),
        "a root, a power": ("test_behaviour.py::test_what_would_be_trained_wrongly_is_refused_with_its_line",),
        "ranks that ask for figures": ("test_kept_figures.py::test_ranks_that_ask_at_different_lines_are_refused",),
        "weights or gradients changed": (
            "test_behaviour.py::test_what_would_be_trained_wrongly_is_refused_with_its_line",
        ),
        "hooks on parameters' gradients": (
            "test_behaviour.py::test_what_would_be_trained_wrongly_is_refused_with_its_line",
        ),
        "a process group that is made": (
            "test_behaviour.py::test_what_would_be_trained_wrongly_is_refused_with_its_line",
        ),
        "ranks that begin with different": ("test_agreement.py::test_weights_that_are_not_those_of_rank_0_differ",),
        "own batches that are not seen": (
            "test_own_batches.py::test_what_is_not_seen_to_be_a_batch_is_refused_with_its_line",
        ),
        "a data set that is drawn": ("styles/own_batches/folds.py",),
        "other distributions": (
            "e2e/jobs/test_data_parallel_option.py::test_what_is_no_way_and_no_training_of_ours_is_refused",
        ),
        "own batches that are shared": ("test_own_batches.py::test_each_rank_takes_its_part",),
        "a script that makes its batches": (
            "test_own_batches.py::test_a_script_that_looks_for_its_rank_is_left_as_it_is",
        ),
        "a script that calls": ("test_behaviour.py::test_a_script_that_distributes_itself_is_left_alone",),
        "`BatchNorm` in": ("test_equal.py::test_batch_statistics_of_the_whole_batch_where_they_are_asked_for",),
        "a figure that cannot be combined": ("styles/sequences/padded_predictions.py",),
        "a mean over places": ("styles/sequences/mean_of_padded.py",),
        "a batch's list of things": (
            "test_kept_figures.py::test_a_list_of_samples_is_named_where_it_is_gone_through",
            "test_kept_figures.py::test_arrays_in_a_batch_are_said",
        ),
        "an error over sizes": (
            "test_behaviour.py::test_after_an_error_over_sizes_it_is_told_that_batches_are_cut",
        ),
        "a loss whose last steps": ("test_reading.py::test_what_a_loss_makes_of_its_batch",),
        "no batch divides": ("test_rank_outputs.py::test_where_no_batch_divides_that_is_said",),
    },
    "rehearsal.md": {
        "devices": ("device_answers.py", "test_answers.py::test_virtual_gpus_answer_as_real_ones_do"),
        "[the current device]": (
            "device_answers.py", "test_device_choice.py::test_a_mesh_chooses_the_gpu_by_the_local_rank",
        ),
        "tensors, modules": ("answers.py",),
        "devices mixed": ("answers.py", "test_mistakes.py::test_a_batch_that_was_not_sent_to_the_gpu"),
        "saving": ("answers.py", "test_mistakes.py::test_a_checkpoint_of_a_gpu_that_is_not_there"),
        "processes": ("answers.py", "test_mistakes.py::test_all_ranks_of_a_node_on_one_gpu"),
        "parallel": (
            "test_device_choice.py::test_parallel_styles_work_as_on_gpus", "scripts/parallel_styles.py",
            "test_scripts.py::test_fully_sharded_on_a_mesh_of_gpus",
        ),
        "mixed precision": (
            "answers.py", "test_scripts.py::test_ddp_with_mixed_precision_and_checkpoints_as_a_job_file_of_a_cluster",
        ),
        "memory": ("answers.py", "cuda_names.py"),
        "streams, events": ("answers.py", "cuda_names.py"),
        "random numbers": ("answers.py", "cuda_names.py"),
        "`nvidia-smi`": ("test_cli.py::test_nvidia_smi",),
        "flags, profilers": ("cuda_names.py",),
        "a CUDA graph": ("cuda_names.py", "test_cuda_names.py::test_what_is_refused_says_so_in_words_of_ours"),
        "an allocator of CUDA": ("cuda_names.py",),
        "the CUDA runtime": ("cuda_names.py",),
        "CUDA source code": ("cuda_names.py",),
        "communication between": ("cuda_names.py",),
        "symmetric memory": ("cuda_names.py",),
        "GPUDirect": ("cuda_names.py",),
        "the tuning of CUDA": ("cuda_names.py",),
        "a part of a GPU": ("cuda_names.py",),
        "a storage of an old": ("cuda_names.py",),
    },
    "frameworks.md": {
        "Lightning": (
            "test_lightning_ranks.py::test_two_ranks_log_where_they_would_without_a_launcher",
            "test_lightning_ranks.py::test_every_compute",
            "test_lightning_ranks.py::test_a_job_that_names_slurm_gets_what_lightning_makes_of_it",
        ),
        "Open MPI 4 and 5": (
            "test_mpirun_in_ranks.py::test_mpirun_of_the_environment",
            "test_mpirun_in_ranks.py::test_mpirun_of_the_system",
        ),
        "Open MPI, a rank": ("test_mpirun_in_ranks.py::test_a_plain_rank_that_uses_mpi_is_alone",),
        "accelerate": (
            "test_accelerate_ranks.py::test_ranks_are_processes_of_accelerate",
            "test_accelerate_ranks.py::test_ranks_of_an_mpirun_in_the_only_rank",
        ),
        "transformers": ("test_transformers_ranks.py::test_ranks_are_processes_of_the_trainer",),
        "DeepSpeed": (
            "test_deepspeed_ranks.py::test_plain_ranks",
            "test_deepspeed_ranks.py::test_a_launcher_in_the_only_rank_starts_its_own",
        ),
        "JAX": ("test_other_ranks.py::test_plain_ranks_of_jax",),
        "TensorFlow": ("test_other_ranks.py::test_one_process_of_tensorflow", "frameworks/test_tensorflow.py"),
        "Horovod": ("test_other_ranks.py::test_horovod_in_the_only_rank", "frameworks/test_horovod.py"),
        "Ray": ("test_other_ranks.py::test_ray_starts_on_the_only_node", "frameworks/test_ray.py"),
        "Hydra": (
            "test_hydra_ranks.py::test_a_multirun_numbers_its_jobs",
            "test_hydra_ranks.py::test_a_rank_writes_where_it_would_by_itself",
        ),
        "submitit": ("test_hydra_ranks.py::test_jobs_of_submitit_on_this_machine_are_its_own",),
    },
}  # fmt: skip
"""By pages, and by how the first cell of a row begins: tests, or scripts that tests run."""


def rows_below(page: str, beginning: str) -> list[str]:
    """The first cells of the rows of the tables below the heading that begins so."""
    text = find_page(page).read_text(encoding="utf-8")
    section = text[text.index("\n## " + beginning) + 4 :].partition("\n## ")[0]
    lines = section.splitlines()
    rows = [place for place, line in enumerate(lines) if line.startswith("| ") and not line.startswith("| ---")]
    heads = {place for place in rows if lines[place + 1 : place + 2] and lines[place + 1].startswith("| ---")}
    return [lines[place].split(" | ")[0].strip("| ") for place in rows if place not in heads]


def path_of(shown: str) -> str:
    """The file of a test or of a script, below tests/."""
    name = shown.partition("::")[0]
    places = ("", _PARALLEL, _CONVERTED, _REHEARSED, _CONVENTIONS)
    found = [os.path.join(place, name) for place in places if (TESTS / place / name).is_file()]
    assert found, shown
    return found[0]


def rows_with_proof(page: str) -> list[str]:
    """The rows of a page but those that say what is without effect or unknown, which nothing can show."""
    rows = rows_below(page, _SECTIONS.get(page, "What is handled, refused, reported, unknown"))
    return rows[: rows.index("`torch.compile`")] if page == "rehearsal.md" else rows


@pytest.mark.parametrize("page", SHOWN)
def test_each_row_is_shown_by_a_test_or_a_script(page: str) -> None:
    rows, shown = rows_with_proof(page), SHOWN[page]
    beginnings = [[key for key in shown if row.startswith(key)] for row in rows]
    assert [row for row, keys in zip(rows, beginnings, strict=True) if not keys] == []
    assert {key for keys in beginnings for key in keys} == set(shown), "no other row is left"
    assert len(rows) > (10 if page == "frameworks.md" else 15)


@pytest.mark.parametrize("page", SHOWN)
def test_what_shows_it_exists(page: str) -> None:
    for each in {name for names in SHOWN[page].values() for name in names}:
        text = (TESTS / path_of(each)).read_text(encoding="utf-8")
        name = each.partition("::")[2]
        assert not name or re.search(r"^def %s\(" % name, text, re.MULTILINE), each
