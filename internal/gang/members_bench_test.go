package gang

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// BenchmarkMembers lists the members of a gang from two informers. The second one holds the
// finished half of the members.
func BenchmarkMembers(b *testing.B) {
	for _, size := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("members=%d", size), func(b *testing.B) {
			index := cache.Indexers{IndexName: func(obj any) ([]string, error) {
				pod, ok := obj.(*corev1.Pod)
				if !ok {
					return nil, nil
				}
				key, _ := GroupOf(pod)
				return []string{key.String()}, nil
			}}
			running, finished := cache.NewIndexer(cache.MetaNamespaceKeyFunc, index), cache.NewIndexer(cache.MetaNamespaceKeyFunc, index)
			for i := range size {
				name := fmt.Sprint("g-", i)
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.LabelPodGroup: "g"},
				}}
				in := running
				if i%2 == 0 {
					in, pod.Status.Phase = finished, corev1.PodSucceeded
				}
				if err := in.Add(pod); err != nil {
					b.Fatal(err)
				}
			}
			l := NewLister(running, finished)
			b.ReportAllocs()
			for b.Loop() {
				if m := l.Members(types.NamespacedName{Namespace: "ns", Name: "g"}); m.Total() != size {
					b.Fatal(m.Total())
				}
			}
		})
	}
}
