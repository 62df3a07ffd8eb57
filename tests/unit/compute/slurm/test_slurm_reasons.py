"""Every reason to wait, against the names in Slurm's sources, 20.11 to 26.05."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.compute.slurm.reasons import REASONS, wait_reason

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
