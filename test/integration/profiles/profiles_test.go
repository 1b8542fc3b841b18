package profiles

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// profileOf returns a profile for a configuration. args has the arguments of Reprieve, and fit is
// the scoring strategy of NodeResourcesFit.
func profileOf(name, args, fit string) string {
	return stage.ProfileConfig(name, "{name: Reprieve, args: "+args+"}",
		"{name: NodeResourcesFit, args: {scoringStrategy: {type: "+fit+"}}}")
}

// configOf writes a configuration with the profiles, and returns its path.
func configOf(t *testing.T, profiles ...string) string {
	t.Helper()
	file, err := stage.Config{Profiles: profiles}.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// start starts a playground with nodes of 8 CPUs. config is the path of the scheduler's
// configuration.
func start(t *testing.T, config string, nodes int) *stage.Stage {
	t.Helper()
	s := stage.New(t, playground.Options{
		NodeGroups: []playground.NodeGroup{{Count: nodes, Resources: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("8"),
			corev1.ResourceMemory: resource.MustParse("64Gi"),
		}}},
		Scheduler: playground.SchedulerOptions{Config: config},
	})
	s.CreateClasses(map[string]int32{"low": 100, "high": 1000})
	return s
}

// podOf returns the YAML of a pod. scheduler and group may be empty.
func podOf(name, scheduler, class, group string, cpus int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n", name)
	if group != "" {
		fmt.Fprintf(&b, "  labels: {reprieve.dev/pod-group: %s}\n", group)
	}
	b.WriteString("spec:\n  terminationGracePeriodSeconds: 0\n")
	if scheduler != "" {
		fmt.Fprintf(&b, "  schedulerName: %s\n", scheduler)
	}
	fmt.Fprintf(&b, "  priorityClassName: %s\n  containers: [{name: c, image: registry.example/c:1, resources: {requests: {cpu: %d}}}]\n---\n", class, cpus)
	return b.String()
}

func podsOf(prefix, scheduler, class, group string, cpus, count int) string {
	var b strings.Builder
	for i := range count {
		b.WriteString(podOf(fmt.Sprintf("%s-%d", prefix, i), scheduler, class, group, cpus))
	}
	return b.String()
}

func gangOf(name, class string, minCount int) string {
	return fmt.Sprintf(`apiVersion: reprieve.dev/v1alpha1
kind: PodGroup
metadata: {name: %s}
spec:
  schedulingPolicy: {gang: {minCount: %d}}
  disruptionMode: PodGroup
  priorityClassName: %s
---
`, name, minCount, class)
}

// TestProfilesShareTheCluster tests two profiles with different scoring strategies. They must use
// the same cache and the same queue.
func TestProfilesShareTheCluster(t *testing.T) {
	t.Parallel()
	const nodes = 4
	s := start(t, configOf(t, profileOf("pack", "{}", "MostAllocated"), profileOf("spread", "{}", "LeastAllocated"),
		profileOf("default-scheduler", "{preemptionToleration: false}", "LeastAllocated")), nodes)

	// The pods request 40 CPUs, and the nodes have 32. So the pods of both profiles compete for the
	// last free CPUs.
	s.ApplyText(podsOf("packed", "pack", "low", "", 1, 20) + podsOf("spread", "spread", "low", "", 1, 20))
	s.Eventually("all room is taken", func(ctx context.Context) string {
		if n := bound(s.Pods(ctx, "")); n != 8*nodes {
			return fmt.Sprintf("%d pods are bound, want %d", n, 8*nodes)
		}
		return ""
	})
	perNode := map[string]int{}
	for _, pod := range s.Pods(t.Context(), "") {
		if pod.Spec.NodeName != "" {
			perNode[pod.Spec.NodeName]++
		}
	}
	for node, n := range perNode {
		if n > 8 {
			t.Errorf("%s is overcommitted: %d pods of 1 CPU on 8", node, n)
		}
	}

	// A preemptor of one profile must evict victims of the other profile. A pod without
	// schedulerName is scheduled by the profile default-scheduler.
	s.ApplyText(podOf("urgent", "pack", "high", "", 8) + podOf("nameless", "", "high", "", 8))
	s.Runs("urgent", 1)
	s.Runs("nameless", 1)
	profile := map[string]string{"urgent": "pack", "nameless": "default-scheduler"}
	by := func(taker string) func(*corev1.Event) bool {
		return func(e *corev1.Event) bool { return e.Related != nil && e.Related.Name == taker }
	}
	for _, e := range events(s, "Preempted", by("urgent"), by("nameless")) {
		if e.Related == nil {
			continue
		}
		if got, want := e.ReportingController, profile[e.Related.Name]; got != want {
			t.Errorf("%s, preempted by %s, is reported under %q, want the preemptor's profile, %q", e.InvolvedObject.Name, e.Related.Name, got, want)
		}
	}
	for _, e := range events(s, "Scheduled") {
		want := map[byte]string{'p': "pack", 's': "spread", 'u': "pack", 'n': "default-scheduler"}[e.InvolvedObject.Name[0]]
		if got := e.ReportingController; got != want {
			t.Errorf("%s is reported under %q, want its profile, %q", e.InvolvedObject.Name, got, want)
		}
	}
	metrics := s.Metrics(s.Run.Component(playground.Scheduler))
	for _, profile := range []string{"pack", "default-scheduler"} {
		if metrics.Sum("reprieve_preemption_attempts_total", `preemptor="pod"`, `profile="`+profile+`"`, `result="preempts"`) == 0 {
			t.Errorf("/metrics has no preemptions of profile %s", profile)
		}
	}
}

// TestEachProfileFavoursItsNodes is the test in KEP-1451. Each profile prefers another node of the
// cluster. While the preferred node has room, it must get the pods of the profile.
func TestEachProfileFavoursItsNodes(t *testing.T) {
	t.Parallel()
	favouring := func(name, node string) string {
		return stage.ProfileConfig(name, "{name: Reprieve, args: {}}", "{name: NodeAffinity, args: {addedAffinity: {"+
			"preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: "+
			"[{key: "+corev1.LabelHostname+", operator: In, values: ["+node+"]}]}}]}}}")
	}
	wants := map[string]string{"first": "node-0", "second": "node-1", "third": "node-2"}
	var profiles []string
	for name, node := range wants {
		profiles = append(profiles, favouring(name, node))
	}
	s := start(t, configOf(t, profiles...), 4)
	var pods strings.Builder
	for i := range 6 {
		for name := range wants {
			pods.WriteString(podOf(fmt.Sprintf("%s-%d", name, i), name, "low", "", 1))
		}
	}
	s.ApplyText(pods.String())
	for name, node := range wants {
		s.Runs(name+"-", 6)
		for _, pod := range s.Pods(t.Context(), name+"-") {
			if pod.Spec.NodeName != node {
				t.Errorf("%s is on %s, want %s, which profile %s favours", pod.Name, pod.Spec.NodeName, node, name)
			}
		}
	}
	// The preference is not a requirement: without room there, the pod runs on another node.
	s.ApplyText(podsOf("first-more", "first", "low", "", 4, 1))
	s.Runs("first-more-", 1)
	if got := s.Pod("first-more-0").Spec.NodeName; got == "node-0" {
		t.Errorf("first-more-0 is on %s, which has no room for it", got)
	}
}

// TestNoProfile checks that the scheduler rejects a configuration without profiles, and prints one
// line. It would otherwise behave like kube-scheduler.
func TestNoProfile(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const binary = "reprieve-scheduler"
	scheduler := exec.CommandContext(t.Context(), filepath.Join(playgroundtest.BinDir(t, binary), binary), "--config="+config)
	said, err := scheduler.CombinedOutput()
	if err == nil {
		t.Error("it ends without an error")
	}
	if got := string(said); !strings.Contains(got, "no profile has the plugin Reprieve") || !strings.Contains(got, config) || strings.Count(got, "\n") != 1 {
		t.Errorf("it says %q, want one line with the file and the mend", got)
	}
}

// bound returns the number of pods with a node.
func bound(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// events waits until the events that have a reason include all wanted events. It returns all events
// with this reason.
func events(s *stage.Stage, reason string, wanted ...func(*corev1.Event) bool) []corev1.Event {
	s.Helper()
	var out []corev1.Event
	s.Eventually("there are events "+reason, func(ctx context.Context) string {
		if out = s.EventsOf(ctx, "", reason); len(out) == 0 {
			return "none"
		}
		for i, is := range wanted {
			if !slices.ContainsFunc(out, func(e corev1.Event) bool { return is(&e) }) {
				return fmt.Sprintf("%d, and none that is number %d of those wanted", len(out), i)
			}
		}
		return ""
	})
	return out
}

// replace stops a scheduler and starts another scheduler with another configuration.
func replace(s *stage.Stage, old, name, config string) {
	s.Helper()
	if err := s.Run.Component(old).Kill(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Run.StartScheduler(s.Context(), name, playground.SchedulerOptions{Config: config}); err != nil {
		s.Fatal(err)
	}
}

// TestSwitchingBackAndForth switches two features off and on while work runs: the preemption of
// whole gangs, and asynchronous preemption.
func TestSwitchingBackAndForth(t *testing.T) {
	t.Parallel()
	on := profileOf("reprieve-scheduler", "{}", "LeastAllocated")
	off := profileOf("reprieve-scheduler", "{workloadAware: false, asynchronous: false}", "LeastAllocated")
	s := start(t, configOf(t, on), 3)

	// A gang fills two nodes, and a pod fills the third node.
	s.ApplyText(gangOf("training", "low", 2) + podsOf("training", "reprieve-scheduler", "low", "training", 8, 2) +
		podOf("serving", "reprieve-scheduler", "high", "", 8))
	s.Runs("training", 2)
	s.Runs("serving", 1)

	replace(s, playground.Scheduler, "off", configOf(t, off))
	// With workloadAware off, the scheduler evicts only one member of the gang.
	s.ApplyText(podOf("first", "reprieve-scheduler", "high", "", 8))
	s.Runs("first", 1)
	if n := bound(s.Pods(t.Context(), "training")); n != 1 {
		t.Fatalf("%d members of training have a node after one pod was preempted, want 1", n)
	}

	replace(s, "off", "on", configOf(t, on))
	// With workloadAware on, the scheduler evicts the rest of the gang as a unit. It writes the
	// intent to the status of the PodGroup first.
	s.ApplyText(podOf("second", "reprieve-scheduler", "high", "", 8))
	s.Runs("second", 1)
	if n := len(s.Pods(t.Context(), "training")); n != 0 {
		t.Errorf("%d members of training are left", n)
	}
	names := []string{}
	for _, pod := range s.Pods(t.Context(), "") {
		if pod.Status.Phase == corev1.PodRunning {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	if want := []string{"first", "second", "serving"}; !slices.Equal(names, want) {
		t.Errorf("%v run, want %v", names, want)
	}
	events(s, "Preempted", func(e *corev1.Event) bool {
		return e.InvolvedObject.Kind == "PodGroup" && e.InvolvedObject.Name == "training"
	})
}
