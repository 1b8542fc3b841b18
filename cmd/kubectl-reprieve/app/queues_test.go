package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// inQueues returns the snapshot [cluster] with its pod in the queue team, whose parent is the queue
// org. org and team are the quotas of these queues in GPUs; "" for none.
func inQueues(org, team string) string {
	queue := func(name, parent, quota string) string {
		if quota != "" {
			quota = fmt.Sprintf(`"quota":{"nvidia.com/gpu":%q}`, quota)
		}
		spec := strings.Trim(parent+","+quota, ",")
		return fmt.Sprintf(`{"apiVersion":"reprieve.dev/v1alpha1","kind":"Queue","metadata":{"name":%q,"uid":%q,"generation":1},"spec":{%s}}`, name, "queue-"+name, spec)
	}
	out := strings.Replace(cluster, `"name":"old",`, `"name":"old","labels":{"reprieve.dev/queue":"team"},`, 1)
	out = strings.Replace(out, `"priorityclasses":1}`, `"priorityclasses":1,"queues.reprieve.dev":2}`, 1)
	return strings.Replace(out, `"value":100}]}}`, `"value":100}],"queues.reprieve.dev":[`+queue("org", "", org)+","+queue("team", `"parent":"org"`, team)+"]}}", 1)
}

// TestQueuesCountsTheParentsQuota checks the output for a quota above the parent's quota. The
// output has the effective quota, and the quota of the spec beside it.
func TestQueuesCountsTheParentsQuota(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		org, team string
		// want is the row of the queue team in the table, without its bar and with single spaces.
		// wantBar is the bar.
		want, wantBar string
		// wantAmount has some fields of the queue's GPUs in JSON. wantSaid is the text below the
		// table.
		wantAmount map[string]string
		wantSaid   string
	}{
		"within the parent's": {
			org: "8", team: "4", want: "team 0 pods nvidia.com/gpu 4 4 4 - 0", wantBar: "############",
			wantAmount: map[string]string{"quota": "4", "borrowed": "0"},
		},
		"above the parent's": {
			org: "1", team: "24", want: "team 0 pods nvidia.com/gpu 4 4 1 (of 24) - 3", wantBar: "######++++++++++++++++++",
			wantAmount: map[string]string{"quota": "1", "specQuota": "24", "borrowed": "3"},
			wantSaid:   `team: the quota of nvidia.com/gpu is above that of the parent "org", which counts instead; lower it, or raise the parent's.`,
		},
		"of a parent that has none": {
			team: "24", want: "team 0 pods nvidia.com/gpu 4 4 0 (of 24) - 4", wantBar: "++++++++++++++++++++++++",
			wantAmount: map[string]string{"quota": "0", "specQuota": "24", "borrowed": "4"},
			wantSaid:   `team: the quota of nvidia.com/gpu is above that of the parent "org", which counts instead; lower it, or raise the parent's.`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"cluster.json": inQueues(c.org, c.team)}
			code, out, errOut := run(t, files, "", "queues", "--snapshot", "cluster.json")
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if code != 0 || errOut != "" || len(lines) < 3 {
				t.Fatalf("exit code %d; it says %q, %q", code, out, errOut)
			}
			fields := strings.Fields(lines[2])
			if got := strings.Join(fields, " "); got != c.want+" "+c.wantBar {
				t.Errorf("It shows %q, want %q", got, c.want+" "+c.wantBar)
			}
			if said := strings.Join(lines[3:], "\n"); said != c.wantSaid {
				t.Errorf("It says %q below, want %q", said, c.wantSaid)
			}
			_, out, _ = run(t, files, "", "queues", "--snapshot", "cluster.json", "-o", "json")
			requireAmount(t, out, c.wantAmount)
		})
	}
}

// requireAmount checks fields of the GPUs of the queue team in the JSON output of queues.
func requireAmount(t *testing.T, answer string, want map[string]string) {
	t.Helper()
	var got struct {
		Queues []struct {
			Name    string              `json:"name"`
			Amounts []map[string]string `json:"amounts"`
		} `json:"queues"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatal(err)
	}
	for _, q := range got.Queues {
		for _, amount := range q.Amounts {
			if q.Name != "team" || amount["resource"] != "nvidia.com/gpu" {
				continue
			}
			for _, field := range []string{"quota", "specQuota", "borrowed"} {
				if amount[field] != want[field] {
					t.Errorf("%s is %q, want %q", field, amount[field], want[field])
				}
			}
			return
		}
	}
	t.Errorf("The answer has no GPUs of team:\n%s", answer)
}

// TestQueuesHasTheUsageOfDeletedOnes checks that the table has the usage of a deleted queue while
// pods still name it. Other queues may or may not exist.
func TestQueuesHasTheUsageOfDeletedOnes(t *testing.T) {
	t.Parallel()
	for name, snapshot := range map[string]string{
		"others exist": strings.Replace(inQueues("8", "4"), `"reprieve.dev/queue":"team"`, `"reprieve.dev/queue":"old-team"`, 1),
		"none exists":  strings.Replace(cluster, `"name":"old",`, `"name":"old","labels":{"reprieve.dev/queue":"old-team"},`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"cluster.json": snapshot}
			code, out, errOut := run(t, files, "", "queues", "--snapshot", "cluster.json")
			said := strings.Join(strings.Fields(out), " ")
			if code != 0 || errOut != "" || !strings.Contains(said, "old-team 0 pods nvidia.com/gpu 4") || !strings.Contains(out, "old-team: the queue does not exist.") {
				t.Errorf("exit code %d; it says %q, %q", code, out, errOut)
			}
			_, out, _ = run(t, files, "", "queues", "-o", "json", "--snapshot", "cluster.json")
			if !strings.Contains(out, `"gone": true`) {
				t.Errorf("the JSON is %s", out)
			}
		})
	}
}
