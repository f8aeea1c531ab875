// This file has the names of the keys in the bucket.

package natsbroker

import (
	"strconv"
	"strings"
)

// token encodes a name as one token of a subject. It replaces dots, which separate tokens, by equals signs,
// which names cannot contain.
func token(name string) string { return strings.ReplaceAll(name, ".", "=") }

// ownerKey returns the key of the owner of a group.
func ownerKey(group string) string { return "owner." + token(group) }

// memberKey returns the key of a member's presence. With the member "", it returns the prefix of the keys of
// all members.
func memberKey(group, member string) string { return "member." + token(group) + "." + member }

// partitionKey returns the key of a partition's row.
func partitionKey(group, stream string, partition int) string {
	return "partition." + token(group) + "." + stream + "." + strconv.Itoa(partition)
}

// partitionsOf returns the filter for the rows of a group.
func partitionsOf(group string) string { return "partition." + token(group) + ".>" }

// topicOf returns the topic in the key of a row.
func topicOf(key string) string { return strings.ReplaceAll(strings.Split(key, ".")[2], "=", ".") }
