package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Patch changes the status of the pod with the UID. If the name belongs to another pod, the error
// satisfies [IsAnotherPod]. Conditions are merged by type. A nil value removes a field.
func Patch(
	ctx context.Context, pods kubernetes.Interface, namespace, name string, uid types.UID, status map[string]any, options metav1.PatchOptions,
) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = pods.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, options, "status")
	return err
}

// IsAnotherPod reports whether a Patch failed because the name belongs to another pod now. The API
// server then refuses to change the UID.
func IsAnotherPod(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// IsRefused reports whether the API server answered and changed nothing. A call that got no answer,
// or failed inside the server, may still have changed the pod.
func IsRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
