package kubectl

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

var record = flag.Bool("kubectl.record", false, "write the snapshot and the record of decisions that docs/why.md goes by")

// walkFiles returns the directory with the manifests for docs/why.md, and with the files that the
// page's commands read.
func (s *stand) walkFiles() string {
	return filepath.Join(playgroundtest.ModuleRoot(s), "cmd", "kubectl-reprieve", "app", "testdata", "why")
}

func (s *stand) read(path ...string) string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// answered is a command in docs/why.md with the output that the page shows.
type answered struct {
	args []string
	want string
}

// page returns the commands in docs/why.md, with the outputs that the page shows.
func (s *stand) page() []answered {
	s.Helper()
	var out []answered
	for _, block := range strings.Split(s.read(playgroundtest.ModuleRoot(s), "docs", "why.md"), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```\n")
		command, want, _ := strings.Cut(block, "\n")
		args, ok := strings.CutPrefix(command, "$ kubectl reprieve ")
		if !ok {
			s.Fatalf("The page has the command %q", command)
		}
		out = append(out, answered{strings.Fields(args), want})
	}
	return out
}

// sameAside replaces the parts of an output that differ between clusters, such as times, ages and
// random names. It removes the line and the phrases about lost work, which exist only if the
// victims have run for at least a second.
func sameAside(answer string) string {
	for _, aside := range []struct{ pattern, by string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"}, {`\((\d+h)?(\d+m)?\d+s\)`, "(AGE)"}, {`<?\d+\.\d`, "HOURS"}, {`\b0 (GPU|device)-hours`, "HOURS $1-hours"},
		{`(?m)^Lost: HOURS device-hours of its own work, HOURS in all\.\n`, ""},
		{`; (less than )?HOURS device-hours of work are lost`, ""},
		{`etl-[a-z0-9]{5}`, "etl-POD"}, {`node-\d`, "node-N"}, {` +`, " "},
	} {
		answer = regexp.MustCompile(aside.pattern).ReplaceAllString(answer, aside.by)
	}
	return answer
}

// tellsAll reports whether an output has as many lines as the page, and each line begins with the
// line of the page. A line may continue, because the cluster has events and the page's snapshot has
// none.
func tellsAll(got, want string) bool {
	lines, wanted := strings.Split(got, "\n"), strings.Split(want, "\n")
	return slices.EqualFunc(lines, wanted, strings.HasPrefix)
}

// live replaces the files in the arguments of a command by options to read the cluster and the
// running scheduler.
func (s *stand) live(args []string) []string {
	s.Helper()
	var out []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--snapshot":
			i++
		case args[i] == "--log":
			out = append(out, "--scheduler", s.playground.Component(playground.Scheduler).URL())
			i++
		case strings.HasSuffix(args[i], ".yaml"):
			out = append(out, filepath.Join(s.walkFiles(), args[i]))
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// play creates the objects of docs/why.md, step by step.
func (s *stand) play() {
	s.Helper()
	s.create(s.read(s.walkFiles(), "1-running.yaml"))
	s.eventually("all nodes are full", func() bool {
		return len(s.onNodes("batch-")) == 2 && len(s.onNodes("etl-")) == 1 && len(s.onNodes("notebook")) == 1
	})
	s.create(s.read(s.walkFiles(), "2-urgent.yaml"))
	s.eventually("the urgent gang has its room", func() bool { return len(s.onNodes("urgent-")) == 2 })
	s.create(s.read(s.walkFiles(), "3-waiting.yaml"))
	s.eventually("the others have been told why they wait, and the batch who took it", func() bool {
		_, told := s.condition("train")
		return told == v1alpha1.ReasonUnschedulable && s.waitsFor("later") != "" && s.waitsFor("probe") != "" && s.lastTaken("batch") != ""
	})
}

// condition returns the message and the reason in the condition PodGroupScheduled of a PodGroup.
func (s *stand) condition(name string) (message, reason string) {
	s.Helper()
	var pg v1alpha1.PodGroup
	s.into("podgroups", name, &pg)
	for _, c := range pg.Status.Conditions {
		if c.Type == v1alpha1.ConditionPodGroupScheduled {
			return c.Message, c.Reason
		}
	}
	return "", ""
}

func (s *stand) lastTaken(name string) string {
	s.Helper()
	var pg v1alpha1.PodGroup
	if s.into("podgroups", name, &pg); pg.Status.LastDisruption == nil {
		return ""
	}
	return pg.Status.LastDisruption.Rule
}

func (s *stand) into(resource, name string, value any) {
	s.Helper()
	found, err := s.objects.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	text, err := found.MarshalJSON()
	if err != nil {
		s.Fatal(err)
	}
	if err := json.Unmarshal(text, value); err != nil {
		s.Fatal(err)
	}
}

// waitsFor returns the message in the condition PodScheduled of a pod.
func (s *stand) waitsFor(pod string) string {
	s.Helper()
	found, err := s.kube.CoreV1().Pods(namespace).Get(s.Context(), pod, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, c := range found.Status.Conditions {
		if c.Type == "PodScheduled" {
			return c.Message
		}
	}
	return ""
}

// TestWalk runs the commands of docs/why.md on a cluster, as a user with read permissions. Their
// output must be as on the page.
func TestWalk(t *testing.T) {
	s := emptyStand(t, 4, playground.SchedulerOptions{Args: []string{"--leader-elect=false"}})
	s.play()
	scheduler := s.playground.Component(playground.Scheduler).URL()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"why", "podgroup/train"}, "you may not list"},
		{[]string{"ui"}, "you may not list"},
		{[]string{"why", "podgroup/batch", "--scheduler", scheduler}, "ask for the ClusterRole reprieve-decisions-reader"},
		{[]string{"ui", "--scheduler", scheduler}, "ask for the ClusterRole reprieve-decisions-reader"},
	} {
		if code, _, errOut := s.ask("", c.args...); code != 4 || !strings.Contains(errOut, c.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%v without rights: exit code %d, %q", c.args, code, errOut)
		}
	}
	s.bind("reprieve-decisions-reader")
	s.allow()
	// Try again for some time: the scheduler caches a denial for several seconds.
	s.eventually("the reader may read decisions", func() bool {
		code, _, _ := s.ask("", "why", "podgroup/batch", "--scheduler", scheduler)
		return code == 0
	})
	if *record {
		s.keep(scheduler)
		return
	}
	commands := s.page()
	if len(commands) < 10 {
		t.Fatalf("The page has %d commands", len(commands))
	}
	for _, c := range commands {
		args := s.live(c.args)
		_, out, errOut := s.ask("", args...)
		if got, want := sameAside(out+errOut), sameAside(c.want); !tellsAll(got, want) {
			t.Errorf("%v answers\n%s\nand the page has\n%s", args, got, want)
		}
	}
	s.sameWords()
	s.servesThePage(scheduler)
	// The role view in a namespace includes the permission to watch, which the option --watch
	// needs.
	s.bind("reprieve-view")
	s.bind("view")
	s.follows()
	if s.verbs()["watch"] == 0 {
		t.Error("No watch of the command is recorded")
	}
	for verb, n := range s.verbs() {
		if !slices.Contains([]string{"list", "get", "watch", reviews}, verb) {
			t.Errorf("The command makes %d requests %q", n, verb)
		}
	}
}

// processes matches the name of the scheduler's process in a record of the decision log.
var processes = regexp.MustCompile(`"process":"[^"]*"`)

// keep writes the files that the commands in docs/why.md read. It runs only on request.
func (s *stand) keep(scheduler string) {
	s.Helper()
	code, snapshot, errOut := s.ask("", "snapshot", "--redact")
	if code != 0 {
		s.Fatal(errOut)
	}
	config := s.playground.RESTConfig()
	config.Host = scheduler
	decisions, err := kubernetes.NewForConfigOrDie(config).Discovery().RESTClient().Get().AbsPath("/debug/reprieve/decisions").DoRaw(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for name, text := range map[string]string{"cluster.json": snapshot, "decisions.jsonl": processes.ReplaceAllString(string(decisions), `"process":"reprieve-scheduler-7d4f_1c9e"`)} {
		if err := os.WriteFile(filepath.Join(s.walkFiles(), name), []byte(text), 0o600); err != nil {
			s.Fatal(err)
		}
	}
}

// sameWords checks that the command why uses the texts of the scheduler: the condition's message
// for a shortage, and the event's message for a victim.
func (s *stand) sameWords() {
	s.Helper()
	message, _ := s.condition("train")
	if _, out, _ := s.ask("", "why", "podgroup/train", "--remedies=false"); message == "" || !strings.Contains(out, "Missing: "+message+".\n") {
		s.Errorf("The condition says %q, and why\n%s", message, out)
	}
	for _, pod := range []string{"later", "probe"} {
		_, out, _ := s.ask("", "why", pod, "--remedies=false")
		missing, _, _ := strings.Cut(strings.SplitN(out, "Missing: ", 2)[1], ".\n")
		if told := s.waitsFor(pod); !strings.Contains(told, missing) {
			s.Errorf("The condition of %s says %q, and why %q", pod, told, missing)
		}
	}
	events, err := s.kube.EventsV1().Events(namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "reason=Preempted"})
	if err != nil {
		s.Fatal(err)
	}
	_, out, _ := s.ask("", "why", "podgroup/batch", "--scheduler", s.playground.Component(playground.Scheduler).URL())
	i := slices.IndexFunc(events.Items, func(e eventsv1.Event) bool { return e.Regarding.Kind == "PodGroup" })
	if i < 0 || !strings.Contains(out, events.Items[i].Note) {
		s.Fatalf("The events are %v, and why says\n%s", events.Items, out)
	}
	for _, e := range events.Items {
		if want := core.ToldMember(events.Items[i].Note, namespace, "batch"); e.Regarding.Kind == "Pod" && e.Note != want {
			s.Errorf("The event of %s says %q, want %q", e.Regarding.Name, e.Note, want)
		}
	}
}

// servesThePage checks that the web page of the command ui shows the last preemption.
func (s *stand) servesThePage(scheduler string) {
	s.Helper()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"ui", "--scheduler", scheduler}, []string{`"outcome":"Preempts"`, `"urgent"`, `"batch"`, `"outcome":"Infeasible"`}},
		{[]string{"ui"}, []string{`"outcome":"Preempts"`, `"urgent"`, `"batch"`}},
	} {
		ctx, stop := context.WithCancel(s.Context())
		said, says := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			ended <- app.Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: says, ErrOut: io.Discard},
				append(c.args, "--kubeconfig", s.kubeconfig), func(string) (string, bool) { return "", false })
			_ = says.Close()
		}()
		line, err := bufio.NewReader(said).ReadString('\n')
		if err != nil {
			s.Fatalf("%v says nothing: %v", c.args, err)
		}
		url := strings.Fields(line)[2]
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"data.json", http.NoBody)
		if err != nil {
			s.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			s.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := answer.Body.Close(); err != nil {
			s.Error(err)
		}
		for _, want := range c.want {
			if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
				s.Errorf("%v: it serves %d, %v, without %s: %s", c.args, answer.StatusCode, err, want, body)
			}
		}
		stop()
		if code := <-ended; code != 0 {
			s.Errorf("%v ends with exit code %d", c.args, code)
		}
	}
}

// following is a running command why --watch.
type following struct {
	lines <-chan string
	code  <-chan int
	stop  context.CancelFunc
	said  []string
}

func (s *stand) follow(args ...string) *following {
	ctx, stop := context.WithCancel(s.Context())
	out, says := io.Pipe()
	lines, code := make(chan string, 1000), make(chan int, 1)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	go func() {
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: says, ErrOut: says}
		code <- app.Run(ctx, streams, append(args, "--kubeconfig", s.kubeconfig), func(string) (string, bool) { return "", false })
		_ = says.Close()
	}()
	return &following{lines: lines, code: code, stop: stop}
}

// until reads the output until a line contains the words.
func (f *following) until(s *stand, words string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		select {
		case line, open := <-f.lines:
			if f.said = append(f.said, line); strings.Contains(line, words) {
				return
			}
			if !open {
				s.Fatalf("It ends, and says %q, without %q", f.said, words)
			}
		case <-ctx.Done():
			s.Fatalf("It says %q, without %q, for %v", f.said, words, patience)
		}
	}
}

// ends waits until the command exits, and checks the exit code.
func (f *following) ends(s *stand, want int) {
	s.Helper()
	defer f.stop()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	select {
	case code := <-f.code:
		if code != want {
			s.Errorf("It ends with exit code %d, want %d", code, want)
		}
	case <-ctx.Done():
		s.Fatalf("It does not end within %v", patience)
	}
}

// follows tests the command why --watch. It must report changes until the pod runs, even after the
// API server restarts. It must end when it is interrupted.
func (s *stand) follows() {
	s.Helper()
	interrupted := s.follow("why", "podgroup/train", "--watch", "--remedies=false")
	interrupted.until(s, "In line:")
	interrupted.stop()
	interrupted.ends(s, 130)
	f := s.follow("why", "later", "--watch", "--remedies=false")
	gone := s.follow("why", "probe", "--watch", "--remedies=false")
	f.until(s, "In line:")
	gone.until(s, "In line:")
	api := s.playground.Component(playground.APIServer)
	if err := api.Kill(syscall.SIGKILL); err != nil {
		s.Fatal(err)
	}
	f.until(s, "Trying again:")
	if err := api.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
	// Only this command must report the restart. The other command may have made no request during
	// it.
	f.until(s, "answers again")
	grace := int64(0)
	for _, name := range []string{"probe", "notebook"} {
		s.eventually(name+" is deleted", func() bool {
			return s.kube.CoreV1().Pods(namespace).Delete(s.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}) == nil
		})
	}
	f.until(s, "pod default/later: running")
	f.ends(s, 0)
	gone.until(s, "error: pod default/probe")
	gone.ends(s, 3)
	begun := 0
	for _, line := range f.said {
		if strings.Contains(line, "Missing: ") {
			begun++
		}
	}
	if begun != 1 {
		s.Errorf("It says %d times what is missing, which did not change: %q", begun, f.said)
	}
}
