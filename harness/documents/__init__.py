"""The JSON files of the harness: one dataclass for each kind, which is its schema.

`files` reads and writes all of them.

    finding      `finding.FindingDocument`, from a search: `.harness/findings/<id>/finding.json`.
    regression   `finding.RegressionDocument`, from `harness keep`: `suites/regressions/<id>.json`.
    case         `finding.CaseDocument`, from a person who replays a case with its libraries.
    campaign     `campaign.CampaignReport`, from `harness fuzz --json`.
    chunk        `chunk.Chunk`, from a divided search: `.harness/chunks/<id>.json`.
    shard        `chunk.ShardReport`, from `harness fuzz --shard … --json`.
    region       `finding.RegionDocument`, from `harness region`.
    bisection    `bisection.BisectionDocument`, from `harness bisect --json`.
    corpus       `studies.corpus.results.CorpusResults`, from `python -m studies.corpus --json`.
    gate         `gate_report.GateReport`, from `harness gate --json`.
    mutation     `studies.mutation.score.MutationResults`, from `python -m studies.mutation --json`.
"""
