package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// profiles returns a scheduler configuration with two profiles. first and second are the arguments
// of Reprieve in these profiles.
func profiles(t *testing.T, first, second string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "next.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	head, profile, _ := strings.Cut(string(text), "profiles:\n")
	one := strings.Replace(profile, "args: {workloadAware: false}", "args: {"+first+"}", 1)
	two := strings.Replace(strings.Replace(profile, "args: {workloadAware: false}", "args: {"+second+"}", 1), "reprieve-scheduler", "reprieve-other", 1)
	return head + "profiles:\n" + one + two
}

// taken returns a snapshot with the Queues a and b, and a namespace whose default Queue is b.
// victims are preempted pods and PodGroups in JSON.
func taken(victims ...string) string {
	queue := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"reprieve.dev/v1alpha1","kind":"Queue","metadata":{"name":%q,"uid":%q},"spec":{"quota":{"nvidia.com/gpu":"4"}}}`, name, "queue-"+name)
	}
	var pods, groups []string
	for _, victim := range victims {
		switch {
		case strings.Contains(victim, `"PodGroup"`):
			groups = append(groups, victim)
		case victim != "":
			pods = append(pods, victim)
		}
	}
	return fmt.Sprintf(`{"apiVersion":"snapshot.reprieve.dev/v2","kind":"ClusterSnapshot","taken":"2026-03-01T12:00:00Z",
"roots":[{"apiVersion":"batch/v1","kind":"Job","resource":"jobs"},{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","resource":"jobsets"},
{"apiVersion":"leaderworkerset.x-k8s.io/v1","kind":"LeaderWorkerSet","resource":"leaderworkersets"}],
"counts":{"namespaces":1,"queues.reprieve.dev":2,"pods":%d,"podgroups.reprieve.dev":%d},
"objects":{"namespaces":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","uid":"ns","annotations":{"reprieve.dev/queue":"b"}}}],
"queues.reprieve.dev":[%s,%s],"pods":[%s],"podgroups.reprieve.dev":[%s]}}`,
		len(pods), len(groups), queue("a"), queue("b"), strings.Join(pods, ","), strings.Join(groups, ","))
}

// victimPod returns a preempted pod. metadata and spec are additional JSON fields.
func victimPod(name, metadata, spec, phase string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":%q,"uid":%q%s},
"spec":{"priority":10,"containers":[{"name":"c","image":"i"}]%s},"status":{"phase":%q,"conditions":[{"type":"DisruptionTarget","status":"True",
"reason":"PreemptionByScheduler","lastTransitionTime":"2026-03-01T11:00:00Z","message":"preempted by Pod default/urgent (priority 100): Reclaim, the victim's priority is 10"}]}}`,
		name, "uid-"+name, metadata, spec, phase)
}

// victimGroup returns a preempted PodGroup. spec is additional JSON.
func victimGroup(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"reprieve.dev/v1alpha1","kind":"PodGroup","metadata":{"namespace":"default","name":%q,"uid":%q},
"spec":{"schedulingPolicy":{"gang":{"minCount":1}}%s},"status":{"lastDisruption":{"time":"2026-03-01T11:00:00Z","rule":"Reclaim",
"preemptor":{"kind":"Pod","namespace":"default","name":"urgent"}}}}`, name, "uid-"+name, spec)
}

// TestHistoryOfAQueue checks that history finds the queue of a victim in the same places as the
// scheduler does.
func TestHistoryOfAQueue(t *testing.T) {
	t.Parallel()
	const ours = `,"nodeName":"n","schedulerName":"reprieve-scheduler"`
	const nothing = "Nothing tells of any preemption.\n"
	config := profiles(t, "queueLabelKey: example.com/queue", "groups: {labels: [kai]}")
	for name, c := range map[string]struct {
		victim, queue string
		// member is the name of the pod's PodGroup; "" for none.
		member string
		// want is a text that the output must contain.
		want string
	}{
		"by the label":                        {victim: victimPod("v", `,"labels":{"example.com/queue":"a"}`, ours, "Running"), queue: "a", want: "pod default/v "},
		"by a label that the profile ignores": {victim: victimPod("v", `,"labels":{"reprieve.dev/queue":"a"}`, ours, "Running"), queue: "a", want: nothing},
		"by the words of another scheduler": {
			victim: victimPod("v", `,"labels":{"kai.scheduler/queue":"a"}`, `,"nodeName":"n","schedulerName":"reprieve-other"`, "Running"), queue: "a", want: "pod default/v ",
		},
		"by the namespace":                     {victim: victimPod("v", "", ours, "Running"), queue: "b", want: "pod default/v "},
		"by the namespace, one that has ended": {victim: victimPod("v", "", ours, "Failed"), queue: "b", want: "pod default/v "},
		"by the namespace, another queue":      {victim: victimPod("v", "", ours, "Running"), queue: "a", want: nothing},
		"a pod of another scheduler":           {victim: victimPod("v", "", `,"nodeName":"n","schedulerName":"default-scheduler"`, "Running"), queue: "b", want: nothing},
		"a group, by its field":                {victim: victimGroup("g", `,"queueName":"a"`), queue: "a", want: "podgroup default/g "},
		"a group, by the profile of its pods": {
			victim: victimGroup("g", ""), member: victimPod("m", `,"labels":{"reprieve.dev/pod-group":"g"}`, ours, "Failed"), queue: "b", want: "podgroup default/g ",
		},
		"a group without pods, of which profile": {victim: victimGroup("g", ""), queue: "a", want: nothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, map[string]string{"cluster.json": taken(c.victim, c.member), "config.yaml": config}, "",
				"history", "--queue", c.queue, "--snapshot", "cluster.json", "--config", "config.yaml")
			if code != 0 || errOut != "" || !strings.Contains(out, c.want) || strings.Contains(out, "Left out") {
				t.Errorf("exit code %d, it says %q, %q; want %q", code, out, errOut, c.want)
			}
		})
	}
}

// TestHistoryOfAQueueByDefault checks history without a configuration file: PodGroups that name no
// queue, and their members, are in the default queue of the namespace.
func TestHistoryOfAQueueByDefault(t *testing.T) {
	t.Parallel()
	member := victimPod("m", `,"labels":{"reprieve.dev/pod-group":"full"}`, `,"schedulerName":"reprieve-scheduler"`, "Pending")
	files := map[string]string{"cluster.json": taken(victimGroup("full", ""), victimGroup("bare", ""), victimGroup("other", `,"queueName":"a"`), member)}
	_, out, errOut := run(t, files, "", "history", "--queue", "b", "--snapshot", "cluster.json")
	for _, words := range []string{"podgroup default/full ", "podgroup default/bare ", "pod default/m "} {
		if !strings.Contains(out, words) || errOut != "" {
			t.Errorf("it says %q, %q; want %q", out, errOut, words)
		}
	}
	if strings.Contains(out, "default/other") || strings.Contains(out, "Left out") {
		t.Errorf("it says %q", out)
	}
}

// TestHistoryOfMembers checks members that were preempted one by one. If the status of their
// PodGroup names them, each member has a line. Otherwise, the PodGroup has a line.
func TestHistoryOfMembers(t *testing.T) {
	t.Parallel()
	const label, node = `,"labels":{"reprieve.dev/pod-group":"g"}`, `,"nodeName":"n","schedulerName":"reprieve-scheduler"`
	named := strings.Replace(victimGroup("g", ""), `"rule":"Reclaim"`, `"rule":"Reclaim","pods":["g-0","g-1"]`, 1)
	for name, c := range map[string]struct {
		victims []string
		// want has the first words of each line of the output.
		want []string
	}{
		"the status names them, and they have gone":        {victims: []string{named}, want: []string{"pod default/g-0", "pod default/g-1"}},
		"the status names them, and one is there":          {victims: []string{named, victimPod("g-1", label, node, "Running")}, want: []string{"pod default/g-0", "pod default/g-1"}},
		"the status names none, and a pod of no group":     {victims: []string{victimGroup("g", ""), victimPod("other", "", node, "Running")}, want: []string{"pod default/other", "podgroup default/g"}},
		"the status names none, and nothing else does":     {victims: []string{victimGroup("g", "")}, want: []string{"podgroup default/g"}},
		"two groups that each lost a member to one victor": {victims: []string{strings.Replace(named, `,"g-1"`, "", 1), strings.NewReplacer(`"g"`, `"h"`, "uid-g", "uid-h", "g-0", "h-0", `,"g-1"`, "").Replace(named)}, want: []string{"pod default/g-0", "pod default/h-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, map[string]string{"cluster.json": taken(c.victims...)}, "", "history", "--snapshot", "cluster.json")
			var got []string
			for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
				got = append(got, strings.Join(strings.Fields(line)[1:3], " "))
			}
			if code != 0 || errOut != "" || !slices.Equal(got, c.want) {
				t.Errorf("exit code %d, it says %q, %q; want the victims %q", code, out, errOut, c.want)
			}
			_, out, _ = run(t, map[string]string{"cluster.json": taken(c.victims...)}, "", "why", "podgroup/g", "--snapshot", "cluster.json")
			if wanted := strings.Count(strings.Join(c.want, " "), "/g"); strings.Count(out, "Taken:") != wanted {
				t.Errorf("why says %q, want %d lines of what was taken", out, wanted)
			}
		})
	}
}

// TestHistoryOfWhatHasGone checks the reported queue of a deleted victim. The queue comes from the
// message about the victim, or else from the PodGroup that the victim was evicted with. If neither
// has a queue, the output reports that the queue is not known.
func TestHistoryOfWhatHasGone(t *testing.T) {
	t.Parallel()
	event := func(name, note string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"default","name":%q},"eventTime":"2026-03-01T11:00:00.000000Z","reason":"Preempted","type":"Normal",
"regarding":{"kind":"Pod","namespace":"default","name":%q},"related":{"kind":"Pod","namespace":"default","name":"urgent"},"note":%q}`, name, name, note)
	}
	server := apiServer(t, "", "", map[string]string{
		"/apis/events.k8s.io/v1/namespaces/default/events": list("events.k8s.io/v1", "EventList", event("alone", told("")), event("member", told("train")), event("reclaimed", told("")+"; queue a takes back what queue c has beyond its fair share or its quota"), event("low", told("")+"; the victim is in queue d")),
		"/apis/reprieve.dev/v1alpha1/queues":               list("v1", "List", `{"metadata":{"name":"a"},"spec":{"quota":{"nvidia.com/gpu":"4"}}}`),
		"/apis/reprieve.dev/v1alpha1/podgroups":            list("v1", "List", `{"metadata":{"namespace":"default","name":"train"},"spec":{"queueName":"a"}}`),
	})
	const leftOut = "Left out: 1 preemption whose victim's queue is no longer known.\n"
	for name, c := range map[string]struct {
		args []string
		// want is a text that the output must contain, and wantNot is a text that it must not
		// contain.
		want, wantNot string
	}{
		"its queue":                         {args: []string{"--queue", "a"}, want: "pod default/member ", wantNot: "default/alone"},
		"its queue, and others":             {args: []string{"--queue", "a"}, want: leftOut},
		"another queue":                     {args: []string{"--queue", "b"}, want: "Nothing tells of any preemption.\n" + leftOut},
		"the queue of a victim of reclaim":  {args: []string{"--queue", "c"}, want: "pod default/reclaimed ", wantNot: "default/low"},
		"the queue of a victim of priority": {args: []string{"--queue", "d"}, want: "pod default/low ", wantNot: "default/reclaimed"},
		"in JSON":                           {args: []string{"--queue", "b", "-o", "json"}, want: `"queueUnknown": 1`},
		"of another preemptor":              {args: []string{"--queue", "b", "--preemptor", "other"}, want: "Nothing", wantNot: "Left out"},
		"any queue":                         {want: "pod default/alone ", wantNot: "Left out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := runAt(t, server, append([]string{"history"}, c.args...)...)
			if code != 0 || errOut != "" || !strings.Contains(out, c.want) || c.wantNot != "" && strings.Contains(out, c.wantNot) {
				t.Errorf("exit code %d, it says %q, %q; want %q and not %q", code, out, errOut, c.want, c.wantNot)
			}
		})
	}
}

// told returns the message on a victim. group is the PodGroup that the victim was evicted with; ""
// for none.
func told(group string) string {
	said := "preempted by Pod default/urgent (priority 100): Reclaim, the victim's priority is 10"
	if group == "" {
		return said
	}
	return core.ToldMember(said, "default", group)
}

// TestUIOfTheCluster checks that the page of the subcommand ui has the victim's queue, as the
// scheduler determines it.
func TestUIOfTheCluster(t *testing.T) {
	t.Parallel()
	snapshot := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(snapshot, []byte(taken(victimPod("v", "", `,"nodeName":"n","schedulerName":"reprieve-scheduler"`, "Running"))), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	said, says := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- app.Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: says, ErrOut: io.Discard}, []string{"ui", "--snapshot", snapshot},
			func(string) (string, bool) { return "", false })
		_ = says.Close()
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatalf("It says nothing: %v", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Fields(line)[2]+"data.json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		Queues    []struct{ Name string }
		Workloads []struct {
			Name  string
			Queue int
		}
	}
	err = json.NewDecoder(answer.Body).Decode(&page)
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	for _, w := range page.Workloads {
		if w.Name == "v" && w.Queue >= 0 && page.Queues[w.Queue].Name == "b" {
			stop()
		}
	}
	if err != nil || ctx.Err() == nil {
		t.Errorf("the page has %+v, error %v; want v in queue b", page, err)
	}
	stop()
	<-ended
}
