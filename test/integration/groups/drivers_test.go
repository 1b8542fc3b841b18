package groups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// application has a driver pod, which creates a number of worker pods. Each pod requests one CPU.
type application struct {
	name    string
	workers int
	// driver creates the driver pod. worker creates the worker pod with number i.
	driver func() *corev1.Pod
	worker func(driver *corev1.Pod, i int)
	// end deletes the pods and the object of the application.
	end func()
}

// TestDrivers submits four applications to a cluster with room for four pods. The applications must
// get their workers one after the other. If all drivers ran, none could get its workers. The test
// does the work of the operator: it creates the workers when their driver runs.
func TestDrivers(t *testing.T) {
	t.Parallel()
	// The machine may be slow, so the timeouts of drivers must not end during the test.
	s := startOf(t, playground.Options{}, map[string]string{
		stage.Profile: "groups: {kinds: [SparkApplication]}, drivers: {createTimeout: 1h, workersTimeout: 1h}",
	})
	serve(s, "sparkoperator.k8s.io_sparkapplications")
	for name, test := range map[string]struct {
		workers int
		submit  func(s *stage.Stage, name string, workers int) *application
	}{
		"SparkApplications":    {workers: 2, submit: sparkApplication},
		"pods of spark-submit": {workers: 1, submit: sparkSubmit},
		"pods that say so":     {workers: 2, submit: ownDriver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.In(t)
			s.AddNodes(4, "n")
			var all []*application
			for i := range 4 {
				all = append(all, test.submit(s, fmt.Sprintf("app-%d", i), test.workers))
			}
			for _, app := range all {
				app.driver()
			}
			// The test cannot know the first application: applications that are created within the
			// same second have no defined order.
			first := firstOf(s, all)
			for _, app := range all {
				if app != first {
					s.WaitsFor(app.name+"-driver", v1alpha1.ReasonDriversWithoutWorkers, "without its workers", s.Namespace+"/"+first.name+"-driver")
				}
			}
			made := make(map[string]bool)
			for len(all) > 0 {
				app := firstOf(s, all)
				s.Eventually(app.name+" has its workers", func(ctx context.Context) string {
					return operate(ctx, s, app, all, made)
				})
				app.end()
				all = slices.DeleteFunc(all, func(a *application) bool { return a == app })
			}
		})
	}
}

// firstOf waits until a driver has a node, and returns its application.
func firstOf(s *stage.Stage, all []*application) *application {
	var first *application
	s.Eventually("a driver has a node", func(ctx context.Context) string {
		for _, app := range all {
			if driver := s.Find(ctx, app.name+"-driver"); driver != nil && driver.Spec.NodeName != "" && driver.DeletionTimestamp == nil {
				first = app
				return ""
			}
		}
		return "none has"
	})
	return first
}

// operate creates the workers of each running driver. It returns "" if all workers of app have a
// node, and otherwise describes the missing workers. The test fails if two drivers lack workers.
//
// The next driver starts as soon as all workers of the previous driver have a node. So operate
// reads all pods with one request: otherwise it could see the previous driver before that moment,
// and the next driver after it.
func operate(ctx context.Context, s *stage.Stage, app *application, all []*application, made map[string]bool) string {
	pods := s.Pods(ctx, "app-")
	lacking, says := 0, "its driver does not run"
	for _, one := range all {
		at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == one.name+"-driver" && pod.Spec.NodeName != "" })
		if at < 0 {
			continue
		}
		if !made[one.name] {
			made[one.name] = true
			for i := range one.workers {
				one.worker(&pods[at], i)
			}
		}
		have := 0
		for i := range pods {
			if strings.HasPrefix(pods[i].Name, one.name+"-worker-") && pods[i].Spec.NodeName != "" {
				have++
			}
		}
		if have < one.workers {
			lacking++
		}
		if one == app {
			says = ""
			if have < one.workers {
				says = fmt.Sprintf("it has %d workers", have)
			}
		}
	}
	if lacking > 1 {
		s.Fatalf("%d drivers run without their workers", lacking)
	}
	return says
}

// sparkApplication returns an application with an object of the kind SparkApplication.
func sparkApplication(s *stage.Stage, name string, workers int) *application {
	const named = "sparkoperator.k8s.io/app-name"
	object := create(s, fmt.Sprintf("apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: %s, annotations: {%s}}\n"+
		"spec: {type: Scala, sparkVersion: 3.5.0, mode: cluster, mainApplicationFile: f, driver: {cores: 1}, executor: {instances: %d, cores: 1}}\n", name, on, workers))
	owner := ownedBy(object)
	return &application{
		name: name, workers: workers,
		driver: func() *corev1.Pod {
			return member(s, name+"-driver", map[string]string{named: name, "spark-role": "driver"}, &owner)
		},
		worker: func(driver *corev1.Pod, i int) {
			member(s, fmt.Sprintf("%s-worker-%d", name, i), map[string]string{named: name, "spark-role": "executor"}, by(driver))
		},
		end: func() { remove(s, object) },
	}
}

// sparkSubmit returns an application of the command spark-submit. It has no object, only pods with
// labels of Spark.
func sparkSubmit(s *stage.Stage, name string, workers int) *application {
	labels := func(role string) map[string]string {
		return map[string]string{"spark-app-selector": name, "spark-role": role}
	}
	return withoutObject(s, name, workers, labels("driver"), labels("executor"), nil)
}

// ownDriver returns an application without an object. Only an annotation of its driver pod has the
// number of workers.
func ownDriver(s *stage.Stage, name string, workers int) *application {
	return withoutObject(s, name, workers, nil, nil, map[string]string{v1alpha1.AnnotationLeads: fmt.Sprint(workers)})
}

func withoutObject(s *stage.Stage, name string, workers int, driverLabels, workerLabels, annotations map[string]string) *application {
	return &application{
		name: name, workers: workers,
		driver: func() *corev1.Pod {
			pod := stage.NewPod(s.Namespace, name+"-driver", "", 1)
			pod.Labels, pod.Annotations = driverLabels, annotations
			s.Create(pod)
			return pod
		},
		worker: func(driver *corev1.Pod, i int) {
			member(s, fmt.Sprintf("%s-worker-%d", name, i), workerLabels, by(driver))
		},
		end: func() {
			background := client.PropagationPolicy(metav1.DeletePropagationBackground)
			if err := client.IgnoreNotFound(s.Objects.Delete(s.Context(), s.Pod(name+"-driver"), background)); err != nil {
				s.Fatal(err)
			}
		},
	}
}

// by returns an owner reference to the driver, for its workers.
func by(driver *corev1.Pod) *metav1.OwnerReference {
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: driver.Name, UID: driver.UID, Controller: ptr.To(true)}
}
