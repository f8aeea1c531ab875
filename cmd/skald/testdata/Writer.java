// Writes the outbox as any Java service would: plain INSERTs with parameters, through JDBC.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;

class Writer {
    public static void main(String[] args) throws Exception {
        String key = System.getenv("KEY"), doc = System.getenv("DOC");
        byte[] all = new byte[256];
        for (int i = 0; i < all.length; i++) all[i] = (byte) i;
        try (Connection c = DriverManager.getConnection(System.getenv("URL"))) {
            c.setAutoCommit(false);
            insert(c, "INSERT INTO skald_outbox (topic, key, type, data) VALUES (?, ?, ?, ?)", "orders", key, "json", doc);
            insert(c, "INSERT INTO skald_outbox (topic, type, data) VALUES (?, ?, ?)", "orders", "nokey", doc);
            insert(c, "INSERT INTO skald_outbox (topic, key_bytes, type, content_type, data_bytes, headers) VALUES (?, ?, ?, ?, ?, ?::jsonb)",
                "orders", new byte[] {(byte) 0xff, 0, 'k'}, "binary", "application/octet-stream", all, "[[\"a\", \"AA==\"]]");
            insert(c, "INSERT INTO skald_outbox (topic, key, type) VALUES (?, ?, ?)", "orders", key, "tombstone");
            c.commit();
        }
    }

    static void insert(Connection c, String sql, Object... values) throws Exception {
        try (PreparedStatement s = c.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) s.setObject(i + 1, values[i]);
            s.executeUpdate();
        }
    }
}
