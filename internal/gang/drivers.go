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

// driverLabels describes the labels that a framework, such as Spark, sets on its driver pods and on
// the worker pods that a driver creates.
type driverLabels struct {
	// role is the key of the label that distinguishes drivers from workers.
	role string
	// driver is the value of the label role on driver pods.
	driver string
	// worker is the value of the label role on worker pods.
	worker string
	// application lists the label keys whose values a driver shares with its workers, the most
	// precise first.
	application []string
	// declared is true if the labels alone do not make a pod a driver. Such a pod is a driver only
	// if its annotation or its owner requires workers.
	declared bool
}

// knownDrivers returns the labels of Spark, Dask and Ray.
func knownDrivers() []driverLabels {
	return []driverLabels{
		// Spark itself sets spark-app-selector. Only the Spark operator sets the second label.
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

// Leads returns the number of workers that the annotation of a driver demands; false for a pod
// without the annotation. An invalid number counts as 1.
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

// IsDriver reports whether the labels of a pod are enough to know that it is a driver. [MayDrive]
// also accepts other possible drivers.
func IsDriver(pod *corev1.Pod) bool {
	return slices.ContainsFunc(knownDrivers(), func(of driverLabels) bool {
		return !of.declared && pod.Labels[of.role] == of.driver
	})
}

// MayDrive reports whether a pod may be a driver. It reads only the pod, so the result can be
// indexed.
func MayDrive(pod *corev1.Pod, derived Derived) bool {
	if _, says := Leads(pod); says {
		return true
	}
	return slices.ContainsFunc(knownDrivers(), func(of driverLabels) bool { return pod.Labels[of.role] == of.driver }) ||
		derived != nil && derived.MayLead(pod)
}

// references returns the possible keys of a driver's workers in the index [WorkerIndexName], the
// most precise first.
func references(driver *corev1.Pod) []string {
	out := []string{ownerReference(driver.Namespace, driver.UID), nameReference(driver.Namespace, driver.Name)}
	for _, of := range knownDrivers() {
		if driver.Labels[of.role] == of.driver {
			out = append(out, of.labelReferences(driver)...)
		}
	}
	return out
}

// referencesOf returns the keys of [WorkerIndexName] for a worker; none for a pod that is no
// worker.
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

// IsSameApplication reports whether two drivers belong to the same application. This is the case
// for a driver and its replacement.
func IsSameApplication(a, b *corev1.Pod) bool {
	of := references(b)
	return slices.ContainsFunc(references(a), func(reference string) bool { return slices.Contains(of, reference) })
}

// ConcernsDrivers reports whether a pod may be a driver, or may be a worker of a driver. It reads
// only the pod.
func ConcernsDrivers(pod *corev1.Pod, derived Derived) bool {
	return MayDrive(pod, derived) || len(referencesOf(pod)) > 0
}

const (
	// DriverIndexName is the name of the Pod informer's index of possible drivers. Its keys are the
	// namespaces of the drivers, and [allDrivers].
	DriverIndexName = "reprieve.dev/driver"
	// WorkerIndexName is the name of the Pod informer's index of workers by their driver.
	WorkerIndexName = "reprieve.dev/worker"

	// allDrivers is the key of all drivers. It cannot be the name of a namespace.
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

// Drivers lists the pods of a namespace that may be drivers, without finished pods. For the
// namespace "", it lists the drivers of all namespaces.
func (l *Lister) Drivers(namespace string) []*corev1.Pod {
	if namespace == "" {
		namespace = allDrivers
	}
	return l.unfinished(DriverIndexName, namespace)
}

// Workers lists the workers of a driver, without finished pods. Workers refer to their driver by
// labels, which are more or less precise. Workers uses the most precise reference that any worker
// has, and ignores workers with a less precise one.
func (l *Lister) Workers(driver *corev1.Pod) []*corev1.Pod {
	for _, reference := range references(driver) {
		if found := l.unfinished(WorkerIndexName, reference); len(found) > 0 {
			return found
		}
	}
	return nil
}

// unfinished lists the pods that the first indexer of l has under a value of an index. It omits
// pods in phase Succeeded or Failed.
func (l *Lister) unfinished(index, value string) []*corev1.Pod {
	return slices.DeleteFunc((&Lister{indexers: l.indexers[:1]}).by(index, value, nil), func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
}
