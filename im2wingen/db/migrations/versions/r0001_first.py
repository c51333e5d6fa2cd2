"""The first schema: problem, device, configuration, trial."""

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "problem",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_problem"),
        sa.UniqueConstraint("key", name="uq_problem_key"),
    )
    op.create_index("ix_problem_kind", "problem", ["kind"])
    op.create_table(
        "device",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("arch", sa.Text(), nullable=False),
        sa.Column("sm_count", sa.Integer(), nullable=False),
        sa.Column("driver_version", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_device"),
        sa.UniqueConstraint(
            "name", "arch", "sm_count", "driver_version", name="uq_device_name_arch_sm_count_driver_version"
        ),
    )
    op.create_table(
        "configuration",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_configuration"),
        sa.UniqueConstraint("family", "digest", "text", name="uq_configuration_family_digest_text"),
    )
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("problem_id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("configuration_id", sa.Integer(), nullable=False),
        sa.Column("study", sa.Text(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("play_off", sa.Boolean(), nullable=False),
        sa.Column("predicted", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("template_digest", sa.Text(), nullable=False),
        sa.Column("source_digest", sa.Text(), nullable=False),
        sa.Column("nvrtc_version", sa.Text(), nullable=False),
        sa.Column("protocol_version", sa.Integer(), nullable=False),
        sa.Column("median_us", sa.Double(), nullable=True),
        sa.Column("min_us", sa.Double(), nullable=True),
        sa.Column("spread", sa.Double(), nullable=True),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("clock_mhz", sa.Integer(), nullable=False),
        sa.Column("max_error", sa.Double(), nullable=True),
        sa.Column("norm_error", sa.Double(), nullable=True),
        sa.Column("workspace_bytes", sa.BigInteger(), nullable=True),
        sa.Column("num_regs", sa.Integer(), nullable=True),
        sa.Column("smem_bytes", sa.Integer(), nullable=True),
        sa.Column("cubin_sha256", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["problem_id"], ["problem.id"], name="fk_trial_problem_id"),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_trial_device_id"),
        sa.ForeignKeyConstraint(["configuration_id"], ["configuration.id"], name="fk_trial_configuration_id"),
        sa.PrimaryKeyConstraint("id", name="pk_trial"),
        sa.UniqueConstraint("identity", name="uq_trial_identity"),
    )
    for column in ("problem_id", "device_id", "configuration_id", "study"):
        op.create_index(f"ix_trial_{column}", "trial", [column])
