package main

import (
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// moduleName is the path of the module with the copies. It is below the path of this repository's
// module, so that the copies may import the repository's internal packages.
const moduleName = "github.com/reprieve-dev/reprieve/bin/suites"

// harness is a Go file that the command adds to the copied package util. It runs Reprieve for the
// copied tests.
//
//go:embed harness.go.txt
var harness []byte

// copied returns the directories to copy. It maps a directory below test/integration of Kubernetes
// to its directory in the module of the copies.
func copied() map[string]string {
	return map[string]string{
		"util":                          "util",
		"scheduler/podgroup":            "podgroup",
		"scheduler/preemption/podgroup": "preemption/podgroup",
	}
}

// patch is a replacement in the copied files: the old text (from) and the new text (to).
type patch struct{ from, to string }

// patches returns the patches for the copied tests. The original tests run kube-scheduler in the
// process of the test, so they need changes to run Reprieve.
func patches() []patch {
	const integration = "k8s.io/kubernetes/test/integration/"
	return []patch{
		{`"` + integration + `util"`, `"` + moduleName + `/util"`},
		{`"` + integration + `scheduler/podgroup/stepsframework"`, `"` + moduleName + `/podgroup/stepsframework"`},
		{"framework.EtcdMain(m.Run)", "_ = framework.EtcdMain; m.Run()"},
		{"= framework.StartTestServer(", "= startTestServer("},
		{"\tgo testCtx.Scheduler.Run(testCtx.SchedulerCtx)\n\treturn testCtx", "\tRunScheduler(t, testCtx)\n\treturn testCtx"},
		{"\t\t\tgo testCtx.Scheduler.Run(testCtx.SchedulerCtx)", "\t\t\ttestutils.RunScheduler(t, testCtx)"},
		// Shorten the timeout. With the original timeout, each failing case takes 30 seconds.
		{"100*time.Millisecond, wait.ForeverTestTimeout, false", "100*time.Millisecond, 10*time.Second, false"},
		{"bindPlugin.nnnInfo.Load(podName)", "testutils.Nominated(podName)"},
		{
			`strings.HasPrefix(event.Message, "Preempted by podgroup")`,
			`(strings.HasPrefix(event.Message, "Preempted by podgroup") || testutils.ByGroup(&event))`,
		},
		// Expect another reason: if a group preempts, Reprieve and kube-scheduler set different
		// reasons in the condition.
		{"cond.Reason == schedulingv1beta1.PodGroupReasonUnschedulable &&", `cond.Reason == "Preempting" &&`},
		{`"minCount (1) cannot be satisfied"`, `"gang of 1 fits on node-1 once leaving pods are gone"`},
		{`"pod group preemption: found a placement for podgroup, preempting 1 victims"`, `"/low-1 on node-1"`},
		{
			"func isPodInUnschedulableQueue(sched *scheduler.Scheduler, name, namespace string) bool {",
			"func isPodInUnschedulableQueue(sched *scheduler.Scheduler, name, namespace string) bool {\n\tif testutils.Waits(name) {\n\t\treturn true\n\t}",
		},
		{
			"func podInUnschedulableEntities(queue queue.SchedulingQueue, podName string) bool {",
			"func podInUnschedulableEntities(queue queue.SchedulingQueue, podName string) bool {\n\tif testutils.Waits(podName) {\n\t\treturn true\n\t}",
		},
		{
			"func podInIncompletePodGroupPods(queue queue.SchedulingQueue, podName string) bool {",
			"func podInIncompletePodGroupPods(queue queue.SchedulingQueue, podName string) bool {\n\tif testutils.Waits(podName) {\n\t\treturn true\n\t}",
		},
	}
}

// copySuites writes a module with the copied and patched tests to dir. It returns an error if a
// patch changes no file: then upstream has changed the tests, and the patch is outdated.
func copySuites(root, kubernetes, dir string) error {
	used := make([]bool, len(patches()))
	for from, to := range copied() {
		source := filepath.Join(kubernetes, "test", "integration", filepath.FromSlash(from))
		err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			below, err := filepath.Rel(source, path)
			if err != nil {
				return err
			}
			return copyFile(path, filepath.Join(dir, filepath.FromSlash(to), below), used)
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
	}
	for i, done := range used {
		if !done {
			return fmt.Errorf("no file of the suites has %q: the patches do not fit this version of Kubernetes", patches()[i].from)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "util", "reprieve.go"), harness, 0o600); err != nil {
		return fmt.Errorf("write the harness: %w", err)
	}
	return writeModule(root, dir)
}

// copyFile copies a file and applies the patches. used has an element for each patch. copyFile sets
// the elements of the patches that changed the file.
func copyFile(from, to string, used []bool) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	text := string(raw)
	for i, p := range patches() {
		if strings.Contains(text, p.from) {
			used[i], text = true, strings.ReplaceAll(text, p.from, p.to)
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(text), 0o600)
}

// writeModule writes the go.mod and go.sum of the module with the copies. They have the
// requirements of test/perf, because test/perf imports upstream's test framework too.
func writeModule(root, dir string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(root, "test", "perf", name))
		if err != nil {
			return fmt.Errorf("read the requirements: %w", err)
		}
		text := strings.Replace(string(raw), "github.com/reprieve-dev/reprieve/test/perf", moduleName, 1)
		text = strings.ReplaceAll(text, "=> ../..", "=> "+root)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the requirements: %w", err)
		}
	}
	return nil
}

// moduleDir returns the directory and the version of the Kubernetes module that this repository
// requires.
func moduleDir(root string) (dir, version string, err error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "k8s.io/kubernetes")
	cmd.Dir = filepath.Join(root, "test", "perf")
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("find the module of Kubernetes: %w", err)
	}
	dir, version, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	return dir, version, nil
}

// testsIn returns the names of the test functions in the files of a directory.
func testsIn(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range testFunction.FindAllSubmatch(raw, -1) {
			if name := string(match[1]); name != "TestMain" {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
