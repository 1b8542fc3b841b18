package scheduling

import (
	"bufio"
	"bytes"
	"context"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// attempts reads how many scheduling attempts of a profile have ended with that result.
func (e *env) attempts(profile, result string) int {
	e.t.Helper()
	config := e.run.RESTConfig()
	config.Host = e.run.Component(playground.Scheduler).URL()
	scheduler, err := kubernetes.NewForConfig(config)
	if err != nil {
		e.t.Fatal(err)
	}
	raw, err := scheduler.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(e.t.Context())
	if err != nil {
		e.t.Fatalf("read the scheduler's metrics: %v", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "scheduler_schedule_attempts_total{") ||
			!mentions(line, []string{`profile="` + profile + `"`, `result="` + result + `"`}) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		if err != nil {
			e.t.Fatalf("metric %q: %v", line, err)
		}
		return int(n)
	}
	return 0
}

// letGo takes all finalizers off a pod.
func (e *env) letGo(ctx context.Context, name string) {
	_, err := e.kube.CoreV1().Pods(e.ns).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		e.t.Errorf("take the finalizers off pod %s: %v", name, err)
	}
}
