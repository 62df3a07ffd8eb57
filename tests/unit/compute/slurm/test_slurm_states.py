"""Every job state and every reason to wait, against the names in Slurm's sources, 20.11 to 26.05."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.compute.slurm.reasons import REASONS, wait_reason
from worldsize.compute.slurm.states import STATES, full_name, state_of
from worldsize.state.records import Reason

STATES_OF_SLURM = """
BOOT_FAIL CANCELLED COMPLETED COMPLETING CONFIGURING DEADLINE EXPEDITING FAILED LAUNCH_FAILED NODE_FAIL
OUT_OF_MEMORY PENDING POWER_UP_NODE PREEMPTED RECONFIG_FAIL REQUEUED REQUEUED_CRON REQUEUE_FED REQUEUE_HOLD
RESIZING RESV_DEL_HOLD REVOKED RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED TIMEOUT UNINITIALISED
UPDATE_DB
"""
"""Every word of job_state_string and job_state_string_complete, 20.11 to 26.05."""

COMPACT_STATES = """
BF CA CD CF CG DL F NF OOM PD PR R RC RD RF RH RQ RS RV S SE SI SO ST TO
"""

REASONS_OF_SLURM = """
AccountNotAllowed AccountingPolicy AssocGrpBB AssocGrpBBMinutes AssocGrpBBRunMinutes AssocGrpBilling
AssocGrpBillingMinutes AssocGrpBillingRunMinutes AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit
AssocGrpCpuLimit AssocGrpEnergy AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocGrpGRES AssocGrpGRESMinutes
AssocGrpGRESRunMinutes AssocGrpJobsLimit AssocGrpLicense AssocGrpLicenseMinutes AssocGrpLicenseRunMinutes
AssocGrpMemLimit AssocGrpMemMinutes AssocGrpMemRunMinutes AssocGrpNodeLimit AssocGrpNodeMinutes
AssocGrpNodeRunMinutes AssocGrpSubmitJobsLimit AssocGrpUnknown AssocGrpUnknownMinutes AssocGrpUnknownRunMinutes
AssocGrpWallLimit AssocMaxBBMinutesPerJob AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBillingMinutesPerJob
AssocMaxBillingPerJob AssocMaxBillingPerNode AssocMaxCpuMinutesPerJobLimit AssocMaxCpuPerJobLimit
AssocMaxCpuPerNode AssocMaxEnergyMinutesPerJob AssocMaxEnergyPerJob AssocMaxEnergyPerNode
AssocMaxGRESMinutesPerJob AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxJobsLimit AssocMaxLicenseMinutesPerJob
AssocMaxLicensePerJob AssocMaxMemMinutesPerJob AssocMaxMemPerJob AssocMaxMemPerNode AssocMaxNodeMinutesPerJob
AssocMaxNodePerJobLimit AssocMaxSubmitJobLimit AssocMaxUnknownMinutesPerJob AssocMaxUnknownPerJob
AssocMaxUnknownPerNode AssocMaxWallDurationPerJobLimit AssociationJobLimit AssociationResourceLimit
AssociationTimeLimit BadConstraints BeginTime BlockFreeAction BlockMaxError BurstBufferOperation
BurstBufferResources BurstBufferStageIn Cleaning Constraints DeadLine Dependency DependencyNeverSatisfied
FedJobLock FrontEndDown InactiveLimit InvalidAccount InvalidQOS JobArrayTaskLimit JobHeldAdmin JobHeldUser
JobHoldMaxRequeue JobLaunchFailure Licenses MaxBBPerAccount MaxBBRunMinsPerAccount MaxBBRunMinsPerUser
MaxBillingPerAccount MaxBillingRunMinsPerAccount MaxBillingRunMinsPerUser MaxCpuPerAccount
MaxCpuRunMinsPerAccount MaxCpuRunMinsPerUser MaxEnergyPerAccount MaxEnergyRunMinsPerAccount
MaxEnergyRunMinsPerUser MaxGRESPerAccount MaxGRESRunMinsPerAccount MaxGRESRunMinsPerUser MaxJobsPerAccount
MaxLicensePerAccount MaxLicenseRunMinsPerAccount MaxLicenseRunMinsPerUser MaxMemPerLimit MaxMemoryPerAccount
MaxMemoryRunMinsPerAccount MaxMemoryRunMinsPerUser MaxNodePerAccount MaxNodeRunMinsPerAccount
MaxNodeRunMinsPerUser MaxPoweredUpNodes MaxSubmitJobsPerAccount MaxUnknownPerAccount MaxUnknownRunMinsPerAccount
MaxUnknownRunMinsPerUser MpiPortsBusy NodeDown NonZeroExitCode None NvidiaImexChannels OutOfMemory
PartitionConfig PartitionDown PartitionInactive PartitionNodeLimit PartitionTimeLimit PowerNotAvail
PowerReserved Priority Prolog QOSGrpBB QOSGrpBBMinutes QOSGrpBBRunMinutes QOSGrpBilling QOSGrpBillingMinutes
QOSGrpBillingRunMinutes QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpCpuLimit QOSGrpEnergy
QOSGrpEnergyMinutes QOSGrpEnergyRunMinutes QOSGrpGRES QOSGrpGRESMinutes QOSGrpGRESRunMinutes QOSGrpJobsLimit
QOSGrpLicense QOSGrpLicenseMinutes QOSGrpLicenseRunMinutes QOSGrpMemLimit QOSGrpMemoryMinutes
QOSGrpMemoryRunMinutes QOSGrpNodeLimit QOSGrpNodeMinutes QOSGrpNodeRunMinutes QOSGrpSubmitJobsLimit
QOSGrpUnknown QOSGrpUnknownMinutes QOSGrpUnknownRunMinutes QOSGrpWallLimit QOSJobLimit QOSMaxBBPerJob
QOSMaxBBPerNode QOSMaxBBPerUser QOSMaxBillingMinutesPerJob QOSMaxBillingPerJob QOSMaxBillingPerNode
QOSMaxBillingPerUser QOSMaxCpuMinutesPerJobLimit QOSMaxCpuPerJobLimit QOSMaxCpuPerNode QOSMaxCpuPerUserLimit
QOSMaxEnergyMinutesPerJob QOSMaxEnergyPerJob QOSMaxEnergyPerNode QOSMaxEnergyPerUser QOSMaxGRESMinutesPerJob
QOSMaxGRESPerJob QOSMaxGRESPerNode QOSMaxGRESPerUser QOSMaxJobsPerUserLimit QOSMaxLicenseMinutesPerJob
QOSMaxLicensePerJob QOSMaxLicensePerUser QOSMaxMemoryMinutesPerJob QOSMaxMemoryPerJob QOSMaxMemoryPerNode
QOSMaxMemoryPerUser QOSMaxNodeMinutesPerJob QOSMaxNodePerJobLimit QOSMaxNodePerUserLimit
QOSMaxSubmitJobPerUserLimit QOSMaxUnknownMinutesPerJob QOSMaxUnknownPerJob QOSMaxUnknownPerNode
QOSMaxUnknownPerUser QOSMaxWallDurationPerJobLimit QOSMinBB QOSMinBilling QOSMinCpuNotSatisfied QOSMinEnergy
QOSMinGRES QOSMinLicense QOSMinMemory QOSMinNode QOSMinUnknown QOSNotAllowed QOSResourceLimit QOSTimeLimit
QOSUsageThreshold RaisedSignal ReqNodeNotAvail Reservation ReservationDeleted ReservationInvalid Resources
SchedDefer SystemFailure TimeLimit
"""
"""Every word of job_reason_string and job_state_reason.c, 20.11 to 26.05."""

ALL_REASONS = REASONS_OF_SLURM.split()


def test_every_state_is_in_the_table() -> None:
    assert set(STATES_OF_SLURM.split()) <= set(STATES)
    assert all(full_name(compact) in STATES for compact in COMPACT_STATES.split())
    assert {state.compact for state in STATES.values()} - {""} <= set(COMPACT_STATES.split())


@pytest.mark.parametrize(
    ("state", "phase", "reason"),
    [
        ("PENDING", "queued", None),
        ("CONFIGURING", "running", None),
        ("RUNNING", "running", None),
        ("SUSPENDED", "running", None),
        ("COMPLETING", "running", None),
        ("STAGE_OUT", "running", None),
        ("COMPLETED", "ended", None),
        ("FAILED", "ended", None),
        ("CANCELLED", "ended", Reason.CANCELLED_BY_USER),
        ("TIMEOUT", "ended", Reason.TIME_LIMIT),
        ("DEADLINE", "ended", Reason.TIME_LIMIT),
        ("OUT_OF_MEMORY", "ended", Reason.OUT_OF_MEMORY),
        ("PREEMPTED", "ended", Reason.PREEMPTED),
        ("NODE_FAIL", "ended", Reason.NODE_FAILURE),
        ("BOOT_FAIL", "ended", Reason.NODE_FAILURE),
        ("REQUEUED", "queued", None),
        ("REVOKED", "unknown", None),
    ],
)
def test_what_a_state_means(state: str, phase: str, reason: str | None) -> None:
    assert state_of(state)[:2] == (phase, reason)


def test_only_completed_is_a_success() -> None:
    fine = [name for name, state in STATES.items() if state.phase == "ended" and state.reason is None]
    assert fine == ["COMPLETED", "FAILED"]


def test_what_is_held_is_stuck() -> None:
    assert {name for name, state in STATES.items() if state.stuck} == {"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("CANCELLED by 0", "CANCELLED"),
        ("CANCELLED by 1000", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("COMPLETI+", "COMPLETING"),
        ("COMPLETE+", "COMPLETED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("OOM", "OUT_OF_MEMORY"),
        ("R", "RUNNING"),
        ("CG", "COMPLETING"),
        ("timeout", "TIMEOUT"),
        (" PENDING ", "PENDING"),
        ("RUNNING,COMPLETING", "COMPLETING"),
        ("CANCELLED,COMPLETING", "COMPLETING"),
        ("PENDING,LAUNCH_FAILED", "PENDING"),
        ("COMPLETED,UPDATE_DB", "COMPLETED"),
        ("PENDING,REQUEUE_HOLD", "REQUEUE_HOLD"),
        ("COMPL", "COMPL"),
        ("?", "?"),
        ("", ""),
    ],
)
def test_a_state_as_some_program_prints_it(printed: str, name: str) -> None:
    assert full_name(printed) == name


@given(st.text(max_size=30))
def test_an_unknown_state_is_unknown_and_never_a_success(text: str) -> None:
    if full_name(text) not in STATES:
        assert state_of(text).phase == "unknown"


def test_every_reason_has_words_of_its_own() -> None:
    strange = [reason for reason in ALL_REASONS if wait_reason(reason).words.startswith("(Slurm")]
    assert strange == []
    assert set(REASONS) - {""} <= set(ALL_REASONS)


def test_the_words_name_what_the_reason_names() -> None:
    for reason in ALL_REASONS:
        words = wait_reason(reason).words.lower()
        if reason.startswith("Assoc"):
            assert "account" in words, reason
        if reason.startswith("QOS"):
            assert "qos" in words, reason
        for part, word in (
            ("Cpu", "cpu"),
            ("Node", "node"),
            ("GRES", "gpu"),
            ("License", "licence"),
            ("Mem", "memory"),
        ):
            if part in reason and reason.startswith(("Assoc", "QOS", "Max")):
                assert word in words, reason


def test_what_asks_for_more_than_is_allowed_never_starts_by_itself() -> None:
    never = {reason for reason in ALL_REASONS if wait_reason(reason).stuck}
    assert {reason for reason in ALL_REASONS if "PerJob" in reason or reason.startswith("QOSMin")} <= never
    assert {"DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "PartitionTimeLimit", "BadConstraints"} <= never
    waits = {
        "Priority",
        "Resources",
        "Dependency",
        "BeginTime",
        "JobArrayTaskLimit",
        "Licenses",
        "QOSMaxJobsPerUserLimit",
    }
    assert not never & waits
    assert not {reason for reason in never if "Grp" in reason or "PerUser" in reason or "PerAccount" in reason}


@pytest.mark.parametrize(
    ("reason", "part", "stuck"),
    [
        ("ReqNodeNotAvail, UnavailableNodes:node[3-4]", "node[3-4]", False),
        ("ReqNodeNotAvail, Reserved for maintenance", "maintenance", False),
        ("ReqNodeNotAvail, May be reserved for other job", "kept for another job", False),
        ("(ReqNodeNotAvail, UnavailableNodes:)", "down, drained or reserved", False),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "down, drained or kept for others",
            False,
        ),
        ("launch failed requeued held", "launch failed requeued held", True),
        ("job requeued in held state", "on hold", True),
        ("user env retrieval failed requeued held", "on hold", True),
        ("Reservation maint_1 was deleted", "Reservation maint_1 was deleted", True),
        ("Resources,Priority", "for free nodes", False),
        ("burst_buffer/datawarp: Stage-out in progress", "burst buffer", False),
        (
            "Job is at or exceeds QOS long's group max TRES(cpu) minutes of 1000 with 1200",
            "budget",
            False,
        ),
        ("uid 1000 not in group permitted to use this partition (gpu). groups allowed: ml", "closed to it", True),
        ("SomethingOfTheFuture", "SomethingOfTheFuture", False),
    ],
)
def test_reasons_in_slurms_own_sentences(reason: str, part: str, stuck: bool) -> None:
    wait = wait_reason(reason)
    assert part in wait.words
    assert wait.stuck is stuck


@given(st.text(max_size=60))
def test_any_reason_has_some_words(text: str) -> None:
    assert wait_reason(text).words
