package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// framed returns a snapshot with one node of 4 GPUs and the given objects. objects maps resources
// to objects in JSON.
func framed(objects map[string][]string) string {
	all := map[string][]string{
		"namespaces": {`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","uid":"ns"}}`},
		"nodes": {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a","uid":"n"},"status":{"allocatable":{"cpu":"8","memory":"64Gi","pods":"110","nvidia.com/gpu":"4"},
"capacity":{"cpu":"8","memory":"64Gi","pods":"110","nvidia.com/gpu":"4"}}}`},
	}
	for resource, list := range objects {
		all[resource] = list
	}
	var counts, parts []string
	for resource, list := range all {
		counts, parts = append(counts, fmt.Sprintf("%q:%d", resource, len(list))), append(parts, fmt.Sprintf("%q:[%s]", resource, strings.Join(list, ",")))
	}
	return fmt.Sprintf(`{"apiVersion":"snapshot.reprieve.dev/v2","kind":"ClusterSnapshot","taken":"2026-03-01T12:00:00Z",
"roots":[{"apiVersion":"batch/v1","kind":"Job","resource":"jobs"},{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","resource":"jobsets"},
{"apiVersion":"leaderworkerset.x-k8s.io/v1","kind":"LeaderWorkerSet","resource":"leaderworkersets"}],
"counts":{%s},"objects":{%s}}`, strings.Join(counts, ","), strings.Join(parts, ","))
}

// owned returns JSON for metadata: the owner reference to an object of the given kind and name. The
// UID of the owner is its name.
func owned(apiVersion, kind, name string) string {
	return fmt.Sprintf(`,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]`, apiVersion, kind, name, name)
}

// asking returns a pod that requests GPUs. node is the node of the pod, or "". metadata is
// additional JSON.
func asking(name, metadata, node string, gpus int) string {
	phase, placed := "Pending", ""
	if node != "" {
		phase, placed = "Running", fmt.Sprintf(`"nodeName":%q,`, node)
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":%q,"uid":%q,"creationTimestamp":"2026-03-01T11:00:00Z"%s},
"spec":{%s"schedulerName":"reprieve-scheduler","priority":10,"containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"%d"},"limits":{"nvidia.com/gpu":"%d"}}}]},
"status":{"phase":%q,"startTime":"2026-03-01T11:00:00Z"}}`, name, "uid-"+name, metadata, placed, gpus, gpus, phase)
}

// replica returns the two pods of a replica of a LeaderWorkerSet.
func replica(set string, index int, node string) []string {
	var out []string
	for worker, suffix := range []string{"", "-1"} {
		labels := fmt.Sprintf(`,"labels":{"leaderworkerset.sigs.k8s.io/name":%q,"leaderworkerset.sigs.k8s.io/group-index":"%d","leaderworkerset.sigs.k8s.io/worker-index":"%d"}`, set, index, worker)
		out = append(out, asking(fmt.Sprintf("%s-%d%s", set, index, suffix), labels, node, 1))
	}
	return out
}

// families returns a snapshot with four JobSets and three LeaderWorkerSets. All of them are gangs,
// except the JobSet loose. Only the JobSets loose and train have pods. The LeaderWorkerSet both has
// two waiting replicas, serve has one, and all pods of calm run.
func families() string {
	object := func(apiVersion, kind, name, annotations, spec string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"default","name":%q,"uid":%q%s},"spec":%s}`, apiVersion, kind, name, name, annotations, spec)
	}
	const gang, two, sets = `,"annotations":{"reprieve.dev/gang":"true"}`, `{"replicas":2,"leaderWorkerTemplate":{"size":2}}`, "jobset.x-k8s.io/v1alpha2"
	const workers = `{"replicatedJobs":[{"name":"w","replicas":1,"template":{"spec":{"parallelism":2}}}]}`
	jobSet := func(name, annotations string) string { return object(sets, "JobSet", name, annotations, workers) }
	lws := func(name string) string {
		return object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, gang, two)
	}
	job := func(set string) string {
		return object("batch/v1", "Job", set+"-w-0", owned(sets, "JobSet", set), `{"parallelism":2}`)
	}
	ofJob := func(set string) string {
		return owned("batch/v1", "Job", set+"-w-0") + `,"labels":{"jobset.sigs.k8s.io/replicatedjob-name":"w"}`
	}
	victim := func(name, by string) string {
		return strings.Replace(victimPod(name, "", `,"nodeName":"n"`, "Failed"), "Pod default/urgent", by, 1)
	}
	return framed(map[string][]string{
		"jobs":                    {object("batch/v1", "Job", "later", "", "{}")},
		"jobsets.jobset.x-k8s.io": {jobSet("bare", gang), jobSet("idle", gang), jobSet("loose", ""), jobSet("train", gang)},
		"jobs.batch":              {job("loose"), job("train")},
		"leaderworkersets.leaderworkerset.x-k8s.io": {lws("both"), lws("calm"), lws("serve")},
		"podgroups.reprieve.dev": {strings.Replace(victimGroup("made", ""), `"uid":"uid-made"`, `"uid":"uid-made"`+owned(sets, "JobSet", "idle"), 1),
			strings.Replace(victimGroup("past", ""), `"uid":"uid-past"`, `"uid":"uid-past"`+owned("batch/v1", "Job", "past"), 1),
			// The owner of this PodGroup is in another namespace. It has the name of a JobSet in
			// this namespace.
			strings.Replace(victimGroup("far", ""), `"namespace":"default","name":"far"`, `"namespace":"far","name":"far"`+owned(sets, "JobSet", "loose"), 1),
		},
		"pods": slices.Concat(
			replica("both", 0, ""), replica("both", 1, ""), replica("calm", 0, "node-a"), replica("serve", 0, "node-a"), replica("serve", 1, ""),
			[]string{
				asking("loose-w-0-0-aaaaa", ofJob("loose"), "", 9), asking("loose-w-0-1-aaaaa", ofJob("loose"), "", 9),
				asking("train-w-0-0-aaaaa", ofJob("train"), "", 9), asking("train-w-0-1-aaaaa", ofJob("train"), "", 9),
				victim("v1", "Pod default/loose-w-0-1-zzzzz"), victim("v2", "PodGroup default/made"), victim("v3", "Pod default/serve-0-1"),
			}),
	})
}

// TestWorkOfEveryKind checks questions that name the owner of the pods, for several kinds of
// owners.
func TestWorkOfEveryKind(t *testing.T) {
	t.Parallel()
	const cluster = "cluster.json"
	files := map[string]string{
		cluster:       families(),
		"config.yaml": profiles(t, "preemptMinRuntime: 100h, groups: {kinds: [Job, JobSet, LeaderWorkerSet]}", "preemptMinRuntime: 100h, groups: {kinds: [Job, JobSet, LeaderWorkerSet]}"),
		"log.jsonl":   walk(t, "decisions.jsonl"),
		"walk.json":   strings.Replace(walk(t, "cluster.json"), `"name":"notebook"`, `"name":"notebook","labels":{"leaderworkerset.sigs.k8s.io/name":"serve"}`, 1),
	}
	for name, c := range map[string]struct {
		args []string
		want int
		// wantOut are texts that the output must contain, and wantNot are texts that it must not
		// contain. wantErr is a text that the line with the error must contain.
		wantOut, wantNot []string
		wantErr          string
	}{
		"a gang for which nothing is written": {args: []string{"why", "jobset/train"}, wantOut: []string{"jobset default/train: pending (2 pending, 0 with a node", "on 2 nodes"}},
		"one by one":                          {args: []string{"why", "jobsets/loose"}, wantOut: []string{"jobset default/loose: pending (2 pending,", "Took: pod default/v1, "}, wantNot: []string{"on 2 nodes", "podgroup far/"}},
		"no pods yet":                         {args: []string{"why", "jobset/bare"}, wantOut: []string{"jobset default/bare: no pods"}},
		"the replica that waits":              {args: []string{"why", "lws/serve"}, wantOut: []string{"leaderworkerset default/serve: pending (2 pending, 2 with a node", "for each of 2 members"}},
		"when that one starts":                {args: []string{"when", "leaderworkersets.leaderworkerset.x-k8s.io/serve"}, wantOut: []string{"leaderworkerset default/serve: needs 1 nvidia.com/gpu for each of 2 members"}},
		"several that wait": {
			args: []string{"why", "lws/both"}, want: 2,
			wantErr: "2 parts of leaderworkerset default/both wait, and each is decided on by itself: ask about one of podgroup/both-ff777205-0, podgroup/both-ff777205-1",
		},
		"when several start":          {args: []string{"when", "lws/both"}, want: 2, wantErr: "ask about one of podgroup/"},
		"all that runs":               {args: []string{"when", "lws/calm"}, wantOut: []string{"leaderworkerset default/calm: has its place already, 2 pods"}},
		"what is protected":           {args: []string{"protected", "lws/serve", "--config", "config.yaml"}, wantOut: []string{"pod default/serve-0 ", "MinRuntime"}, wantNot: []string{"calm"}},
		"what there is not":           {args: []string{"why", "jobset/other"}, want: 3, wantErr: "jobset default/other does not exist"},
		"a kind that is not read":     {args: []string{"why", "rayjob/other"}, want: 3, wantErr: "nothing tells of rayjob default/other: rayjobs.ray.io are read only where the configuration makes groups"},
		"no pods of a Job yet":        {args: []string{"why", "job/later"}, wantOut: []string{"job default/later: no pods"}},
		"what took the gang of a Job": {args: []string{"why", "job/past"}, wantOut: []string{"job default/past: gone", "Taken: podgroup default/past"}},
		"what took its gang":          {args: []string{"why", "jobset/idle"}, wantOut: []string{"jobset default/idle: gone", "Taken: podgroup default/made by pod default/urgent"}},
		"what a gang took":            {args: []string{"history", "--preemptor", "jobset/idle"}, wantOut: []string{"pod default/v2 "}, wantNot: []string{"v1", "v3"}},
		"what a pod took that was":    {args: []string{"history", "--preemptor", "jobset/loose"}, wantOut: []string{"pod default/v1 "}, wantNot: []string{"v2", "v3"}},
		"what a pod took that is":     {args: []string{"history", "--preemptor", "lws/serve"}, wantOut: []string{"pod default/v3 "}, wantNot: []string{"v1", "v2"}},
		"why not that one":            {args: []string{"why", "podgroup/batch", "--not", "lws/serve", "--log", "log.jsonl", "--snapshot", "walk.json"}, wantOut: []string{"Stayed: pod default/notebook"}},
		"why not what is gone":        {args: []string{"why", "podgroup/batch", "--not", "rayjob/x", "--log", "log.jsonl", "--snapshot", "walk.json"}, wantOut: []string{"the record has nothing about rayjob default/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := slices.Clone(c.args)
			if !slices.Contains(args, "--snapshot") {
				args = append(args, "--snapshot", cluster)
			}
			code, out, errOut := run(t, files, "", args...)
			if code != c.want || !strings.Contains(errOut, c.wantErr) || c.wantErr == "" && errOut != "" {
				t.Errorf("exit code %d, want %d; it says %q, %q, want %q", code, c.want, out, errOut, c.wantErr)
			}
			checkWords(t, out, c.wantOut, c.wantNot)
		})
	}
}

// TestHistoryByAnObject checks history for an owner of pods, such as a JobSet: it has the
// preemptions by all pods of the owner.
func TestHistoryByAnObject(t *testing.T) {
	t.Parallel()
	event := `{"metadata":{"namespace":"default","name":"v"},"eventTime":"2026-03-01T11:00:00.000000Z","reason":"Preempted","type":"Normal",
"regarding":{"kind":"Pod","namespace":"default","name":"v"},"related":{"kind":"Pod","namespace":"default","name":"train-w-0-0-zzzzz"}}`
	server := apiServer(t, "", "", map[string]string{
		"/apis/events.k8s.io/v1/namespaces/default/events": list("events.k8s.io/v1", "EventList", event),
		"/apis/batch/v1/jobs":                              list("batch/v1", "JobList", `{"metadata":{"namespace":"default","name":"train-w-0"`+owned("jobset.x-k8s.io/v1alpha2", "JobSet", "train")+`}}`),
	})
	for by, want := range map[string]string{"jobset/train": "pod default/v ", "jobset/other": "Nothing tells of any preemption."} {
		if code, out, errOut := runAt(t, server, "history", "--preemptor", by); code != 0 || errOut != "" || !strings.Contains(out, want) {
			t.Errorf("by %s: exit code %d, it says %q, %q; want %q", by, code, out, errOut, want)
		}
	}
}

// checkWords fails the test if the output lacks a text of want, or contains a text of wantNot.
func checkWords(t *testing.T, out string, want, wantNot []string) {
	t.Helper()
	for _, words := range want {
		if !strings.Contains(out, words) {
			t.Errorf("The answer has no %q:\n%s", words, out)
		}
	}
	for _, words := range wantNot {
		if strings.Contains(out, words) {
			t.Errorf("The answer has %q:\n%s", words, out)
		}
	}
}
