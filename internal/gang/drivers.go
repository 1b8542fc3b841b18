package gang

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// driverLabels are the labels of one framework whose driver creates its workers after it has
// started.
type driverLabels struct {
	// role is the label key whose value is driver on drivers and worker on workers.
	role, driver, worker string
	// application lists the labels that a driver and its workers share, the most precise first.
	application []string
	// declared is true if the labels alone do not make a pod a driver, and [Derived] decides.
	declared bool
}

// knownDrivers returns the labels of the built-in frameworks.
func knownDrivers() []driverLabels {
	return []driverLabels{
		// Spark sets the first label, with the operator and without; the operator sets the second.
		{role: "spark-role", driver: "driver", worker: "executor", application: []string{"spark-app-selector", "sparkoperator.k8s.io/app-name"}},
		{role: "dask.org/component", driver: "scheduler", worker: "worker", application: []string{"dask.org/cluster-name"}},
		{role: "ray.io/node-type", driver: "head", worker: "worker", application: []string{"ray.io/cluster"}, declared: true},
	}
}

// Lead describes the workers that a driver needs.
type Lead struct {
	// Workers is the least number of workers that the driver needs.
	Workers int
	// Group is the PodGroup that its workers are members of; zero if they have none.
	Group types.NamespacedName
}

// Leads returns the number of workers in the annotation of a driver; false for a pod without the
// annotation. A value that is not a number counts as 1.
func Leads(pod *corev1.Pod) (workers int, says bool) {
	value, says := pod.Annotations[v1alpha1.AnnotationLeads]
	if !says {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 1, true
	}
	return int(n), true
}

// IsDriver reports whether a pod has the labels of a driver that creates its workers after it has
// started.
func IsDriver(pod *corev1.Pod) bool {
	return slices.ContainsFunc(knownDrivers(), func(of driverLabels) bool {
		return !of.declared && pod.Labels[of.role] == of.driver
	})
}

// MayDrive reports whether a pod may be a driver, according to the fields of the pod only.
func MayDrive(pod *corev1.Pod, derived Derived) bool {
	if _, says := Leads(pod); says {
		return true
	}
	return slices.ContainsFunc(knownDrivers(), func(of driverLabels) bool { return pod.Labels[of.role] == of.driver }) ||
		derived != nil && derived.MayLead(pod)
}

// references returns the names that workers use to refer to their driver, the most precise first.
func references(driver *corev1.Pod) []string {
	out := []string{ownerReference(driver.Namespace, driver.UID), nameReference(driver.Namespace, driver.Name)}
	for _, of := range knownDrivers() {
		if driver.Labels[of.role] == of.driver {
			out = append(out, of.labelReferences(driver)...)
		}
	}
	return out
}

// referencesOf returns the names that a worker uses for its driver; none for other pods.
func referencesOf(worker *corev1.Pod) []string {
	var out []string
	for i := range worker.OwnerReferences {
		if owner := &worker.OwnerReferences[i]; owner.APIVersion == "v1" && owner.Kind == "Pod" {
			out = append(out, ownerReference(worker.Namespace, owner.UID))
		}
	}
	if name := worker.Labels[v1alpha1.LabelLedBy]; name != "" {
		out = append(out, nameReference(worker.Namespace, name))
	}
	for _, of := range knownDrivers() {
		if worker.Labels[of.role] == of.worker {
			out = append(out, of.labelReferences(worker)...)
		}
	}
	return out
}

func (l *driverLabels) labelReferences(pod *corev1.Pod) []string {
	var out []string
	for _, label := range l.application {
		if value := pod.Labels[label]; value != "" {
			out = append(out, "label/"+pod.Namespace+"/"+label+"="+value)
		}
	}
	return out
}

func ownerReference(namespace string, uid types.UID) string {
	return "owner/" + namespace + "/" + string(uid)
}

func nameReference(namespace, name string) string { return "name/" + namespace + "/" + name }

// IsSameApplication reports whether two drivers are of the same application: a driver and its
// replacement.
func IsSameApplication(a, b *corev1.Pod) bool {
	of := references(b)
	return slices.ContainsFunc(references(a), func(reference string) bool { return slices.Contains(of, reference) })
}

// ConcernsDrivers reports whether a pod may be a driver or a worker of one, according to the fields
// of the pod only.
func ConcernsDrivers(pod *corev1.Pod, derived Derived) bool {
	return MayDrive(pod, derived) || len(referencesOf(pod)) > 0
}

const (
	// DriverIndexName is the name of the Pod informer's index of possible drivers, by namespace
	// and under [allDrivers].
	DriverIndexName = "reprieve.dev/driver"
	// WorkerIndexName is the name of the Pod informer's index of workers by their driver.
	WorkerIndexName = "reprieve.dev/worker"

	// allDrivers is no name of a namespace.
	allDrivers = "*"
)

// AddDriverIndexes adds the indexes of drivers and workers to a Pod informer that has not been
// started.
func AddDriverIndexes(informer cache.SharedIndexInformer, derived Derived) error {
	if _, ok := informer.GetIndexer().GetIndexers()[DriverIndexName]; ok {
		return nil
	}
	err := informer.AddIndexers(cache.Indexers{
		DriverIndexName: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok && MayDrive(pod, derived) {
				return []string{allDrivers, pod.Namespace}, nil
			}
			return nil, nil
		},
		WorkerIndexName: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok {
				return referencesOf(pod), nil
			}
			return nil, nil
		},
	})
	if err != nil {
		return fmt.Errorf("index drivers and their workers: %w", err)
	}
	return nil
}

// Drivers lists the pods that may be drivers, in a namespace or, for "", in all. It omits finished
// pods.
func (l *Lister) Drivers(namespace string) []*corev1.Pod {
	if namespace == "" {
		namespace = allDrivers
	}
	return l.unfinished(DriverIndexName, namespace)
}

// Workers lists the pods that refer to a driver by a name, and uses the most precise name that any
// pod refers to. It omits finished pods.
func (l *Lister) Workers(driver *corev1.Pod) []*corev1.Pod {
	for _, reference := range references(driver) {
		if found := l.unfinished(WorkerIndexName, reference); len(found) > 0 {
			return found
		}
	}
	return nil
}

// unfinished lists the pods of the first indexer under a value. It has no finished pods.
func (l *Lister) unfinished(index, value string) []*corev1.Pod {
	return slices.DeleteFunc((&Lister{indexers: l.indexers[:1]}).by(index, value, nil), func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
}
