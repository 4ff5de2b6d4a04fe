"""What `python -m dev.affected` says of the marts of this repository, and of the examples in the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dev.affected import __main__ as command
from dev.affected.entries import find
from dev.affected.project import ROOT, Project, compiled, read
from dev.affected.queries import Reader

WORKED: list[tuple[str, str, str, list[str]]] = [
    (
        "fct_of_dimensions",
        "sale_id",
        """
        select sales.sale_id, sales.event_id, events.category_id, categories.category_name
        from lakehouse_staging.stg_tickit__sales as sales
        left join lakehouse_staging.stg_tickit__events as events on sales.event_id = events.event_id
        left join lakehouse_staging.stg_tickit__categories as categories on events.category_id = categories.category_id
        """,
        [
            "{'source': 'tickit.sale', 'by': {'sale_id': 'salesid'}}",
            "{'source': 'tickit.category', 'by': {'category_id': 'catid'}}",
            "{'source': 'tickit.event', 'by': {'event_id': 'eventid'}}",
        ],
    ),
    (
        "totals_of_listings",
        "listing_id",
        """
        select listing_id, count(*) as sale_count, sum(price_paid) as revenue
        from lakehouse_staging.stg_tickit__sales where quantity_sold > 0 group by listing_id
        """,
        ["{'source': 'tickit.sale', 'by': {'listing_id': 'listid'}, 'reads': ['qtysold', 'pricepaid']}"],
    ),
    (
        "first_purchases",
        "sale_id",
        """
        select sale_id, buyer_id, price_paid, min(sold_at) over (partition by buyer_id) as first_purchase_at
        from lakehouse_staging.stg_tickit__sales
        """,
        [
            "{'source': 'tickit.sale', 'by': {'sale_id': 'salesid'}}",
            "{'source': 'tickit.sale', 'by': {'buyer_id': 'buyerid'}, 'reads': ['saletime']}",
        ],
    ),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project of this repository, compiled."""
    target: Path = tmp_path_factory.mktemp("target")
    return read(compiled(target=target))


def test_the_entries_of_the_marts_are_those_that_their_queries_imply(project: Project) -> None:
    assert all(project.find(name).wrong == () for name in project.models)
    for name in ("fct_listings", "fct_sales"):
        model, findings = project.models[name], project.find(name)
        assert (findings.wrong, findings.unsure, findings.left_out) == ((), (), {})
        written = {
            (each["source"], tuple(each["by"].items()), frozenset(each.get("reads", []))) for each in model.written
        }
        assert {(each.source, each.by, frozenset(each.reads or ())) for each in findings.proposed} == written


@pytest.mark.parametrize("name", ["fct_listings", "fct_sales"])
def test_an_entry_of_a_mart_that_is_left_out_is_missed(project: Project, name: str) -> None:
    model = project.models[name]
    sources = [each["source"] for each in model.written]
    for place, entry in enumerate(model.written):
        rest = [each for number, each in enumerate(model.written) if number != place]
        findings = find(model.query, model.unique_key, rest, Reader(project.tables), project.sources)
        # A source that no entry names any more is compared whole.
        assert bool(findings.wrong) == (sources.count(entry["source"]) > 1), entry
        for column in entry.get("reads", []):
            less = [name for name in entry["reads"] if name != column] or ["commission"]
            narrow = [*rest, {**entry, "reads": less}]
            findings = find(model.query, model.unique_key, narrow, Reader(project.tables), project.sources)
            assert any(f"reads lacks {column}" in wrong for wrong in findings.wrong)


@pytest.mark.parametrize(("key", "query", "entries"), [case[1:] for case in WORKED], ids=[case[0] for case in WORKED])
def test_the_examples_of_the_documents_are_what_is_proposed(
    project: Project, key: str, query: str, entries: list[str]
) -> None:
    findings = find(query, [key], None, Reader(project.tables), project.sources)
    assert [str(entry) for entry in findings.proposed] == entries
    told = (ROOT / "docs" / "model" / "affected-by.md").read_text(encoding="utf-8")
    assert "\n".join(f"{entry}," for entry in entries) in told


OF_OTHERS = {
    "asks": "{{ config(materialized='incremental', unique_key='id') }} select 1 as id"
    " {% if is_incremental() %} where false {% endif %}",
    "looks": "{{ config(materialized='incremental', unique_key='id') }} select 1 as id"
    " {% if load_relation(this) or adapter.get_relation(none, this.schema, 'asks') %} where false {% endif %}",
    "queries": "{{ config(materialized='view') }} select"
    " {{ run_query('select 1').columns[0].values()[0] if execute else 1 }} as id",
    "reads": "{{ config(materialized='incremental', unique_key='id') }} select id from {{ ref('queries') }}",
}


def test_a_model_that_asks_the_database_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: shop\nprofile: lakehouse\n", encoding="utf-8")
    (tmp_path / "profiles.yml").write_text((ROOT / "profiles.yml").read_text(encoding="utf-8"), encoding="utf-8")
    for name, text in OF_OTHERS.items():
        (tmp_path / "models" / f"{name}.sql").write_text(text, encoding="utf-8")
    found = read(compiled(tmp_path))
    assert [" ".join(found.models[name].query.split()) for name in ("asks", "looks")] == ["select 1 as id"] * 2
    assert [found.find(name).unsure for name in ("asks", "looks")] == [(), ()]
    (told,) = found.find("reads").unsure
    assert "queries: it does not compile without a connection" in told


def test_the_check_ends_with_1_for_what_is_certain_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(*written: Mapping[str, Any]) -> tuple[object, str]:
        model = replace(project.models["fct_sales"], written=written)
        changed = replace(project, models={"fct_sales": model})
        monkeypatch.setattr(command, "compiled", dict)
        monkeypatch.setattr(command, "read", lambda manifest: changed)
        with pytest.raises(SystemExit) as end:
            command.main(check=True)
        return end.value.code, capsys.readouterr().out

    assert ended(*project.models["fct_sales"].written)[0] == 0
    assert ended()[0] == 0
    code, shown = ended({"source": "tickit.sale", "by": {"sale_id": "salesid"}})
    assert code == 1
    assert "affected_by: fct_sales: tickit.sale (through int_buyers_extracted_from_users, stg_tickit__sales)" in shown
    assert "{'source': 'tickit.sale', 'by': {'buyer_id': 'buyerid'}, 'reads': ['saletime']}" in shown
    code, shown = ended({"source": "tickit.sale", "by": {"sale_id": "salesnumber"}})
    assert code == 1
    assert "got column 'salesnumber' of tickit.sale, expected one of salesid" in shown
